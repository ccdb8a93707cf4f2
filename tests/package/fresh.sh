#!/usr/bin/env bash
# How long a fresh machine takes to its first report, and to all that the tests need: root file systems made by debootstrap (as root),
# in which nothing is but the sources and CUDA's headers. No compiler cache. Prints a table.
# usage: fresh.sh [SUITE…]   (default: bookworm trixie; GPUPEAK_DEBIAN_MIRROR: where packages are)
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
headers=$("$source/tools/find_cuda_headers.sh")
[ $# -gt 0 ] || set -- bookworm trixie
work=$(mktemp -d)
finish() {
  local folder
  for folder in "$work"/*/proc; do umount "$folder" 2>/dev/null || true; done
  rm -rf --one-file-system "$work"
}
trap finish EXIT

# timed NAME COMMAND…: in the root; NAME is then how many seconds it took, and how many of the processors'.
timed() {
  local TIMEFORMAT='%0R %0U %0S' seconds
  { time chroot "$root" "${@:2}" >"$work/said" 2>&1; } 2>"$work/time" || {
    tail -n 20 "$work/said" >&2
    exit 1
  }
  read -r -a seconds <"$work/time"
  printf -v "$1" '%s (%s)' "${seconds[0]}" $((seconds[1] + seconds[2]))
}
packages() { chroot "$root" dpkg-query -W -f '${Package}\n' | wc -l; }
megabytes() { du -xsm --exclude proc --exclude source "$root" | cut -f1; }

echo '| distribution | packages and MB: before | for demo.sh | for tests/run.sh | seconds (of processors): installing for demo.sh | demo.sh after that | installing for tests/run.sh |'
echo '|---|---|---|---|---|---|---|'
for suite in "$@"; do
  root=$work/$suite
  debootstrap --variant=minbase "$suite" "$root" "${GPUPEAK_DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$work/said" 2>&1 || {
    echo "| $suite | no root: $(tail -n 1 "$work/said") |"
    continue
  }
  mkdir -p "$root/usr/local/cuda" "$root/source"
  cp -rL "$headers" "$root/usr/local/cuda/include"
  (cd "$source" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf -) | tar -C "$root/source" -xf -
  mount -t proc proc "$root/proc"
  sizes="$(packages), $(megabytes)"
  timed build /source/tools/bootstrap.sh build
  sizes+=" | $(packages), $(megabytes)"
  timed demo /source/tools/demo.sh
  grep -q 'Peak device memory' "$work/said" || { tail -n 20 "$work/said" >&2; exit 1; }
  timed tests /source/tools/bootstrap.sh
  sizes+=" | $(packages), $(megabytes)"
  echo "| $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release") | $sizes | $build | $demo | $tests |"
done
