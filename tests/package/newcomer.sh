#!/usr/bin/env bash
# README's path from the wheel to a test that fails, in a fresh root file system made by debootstrap (as root), timed command by command.
# Where no index of Python packages can be reached, pytest is Debian's, put there before. Ends with 1 if the path is longer than three minutes,
# or the test does not fail as README says.
# usage: newcomer.sh WHEEL [SUITE]   (SUITE: bookworm; GPUPEAK_DEBIAN_MIRROR: where packages are)
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(realpath "$1") suite=${2:-bookworm}
work=$(mktemp -d)
root=$work/root
finish() {
  umount "$root/proc" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap finish EXIT
log=$work/log
failed() {
  tail -n 20 "$log" >&2
  exit 1
}
inside() { chroot "$root" env -i PATH="/root/venv/bin:/usr/bin:/bin:/usr/sbin:/sbin" HOME=/root LC_ALL=C.UTF-8 bash -c "cd /root && $1"; }

debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "$suite" "$root" "${GPUPEAK_DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$log" 2>&1 || failed
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp "$wheel" "$root/root"
options=
if ! inside 'python3 -m venv venv && timeout 60 pip download -q --no-deps -d /tmp pytest' >"$log" 2>&1; then
  chroot "$root" apt-get install -y -qq --no-install-recommends python3-pytest >"$log" 2>&1 || failed
  inside 'rm -rf venv && python3 -m venv --system-site-packages venv' >"$log" 2>&1 || failed
  options='export PIP_NO_INDEX=1; '
  echo 'no index of Python packages: pytest is Debian'"'"'s'
fi

# README's block, cut into its commands: a here-document belongs to the line that begins it.
block=$(sed -n '/^pip install gpupeak-\*\.whl pytest$/,/^```$/p' "$source/README.md" | sed '$d')
[ -n "$block" ] || { echo "newcomer.sh: README has no such block" >&2; exit 1; }
commands=() command=
while IFS= read -r line; do
  command+=${command:+$'\n'}$line
  case $command in *"<<'END'"*) [ "$line" = END ] || continue ;; esac
  commands+=("$command")
  command=
done <<<"$block"

whole=0
for command in "${commands[@]}"; do
  begin=$(date +%s%N) code=0
  inside "$options$command" >"$log" 2>&1 || code=$?
  took=$((($(date +%s%N) - begin) / 1000000))
  whole=$((whole + took))
  printf '%6d.%01d s  exit %d  %s\n' $((took / 1000)) $((took % 1000 / 100)) "$code" "${command%%$'\n'*}"
done
printf '%6d.%01d s  from the wheel to the test that fails (%s)\n' $((whole / 1000)) $((whole % 1000 / 100)) "$suite"
cat "$log"
grep -q 'limit_host_memory: the test added 30.0 MiB' "$log" && grep -q '30.0 MiB  test_sort test_memory.py:5' "$log" && [ "$code" = 1 ] && [ "$whole" -le 180000 ]
