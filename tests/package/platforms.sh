#!/usr/bin/env bash
# Where what tools/portable.sh makes runs: what docs/platforms.md says, from root file systems made here by debootstrap (as root).
# usage: platforms.sh PORTABLE_FOLDER [ROOTS_FOLDER] [SUITE…]
set -euo pipefail
portable=$(cd "$1" && pwd)
roots=${2:-$(dirname "$0")/../../build/roots}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- bullseye bookworm trixie forky
mkdir -p "$roots"
roots=$(cd "$roots" && pwd)
mirror=${GPUPEAK_DEBIAN_MIRROR:-http://deb.debian.org/debian}
archive=$(ls "$portable"/gpupeak-*-linux-x86_64.tar.gz)
failed=0

# Records a shell whose exit code and output must be its own; its report must be exact, with whole stacks, and each of them the same by
# the libunwind that the package brings; an export.
try='set -eu
code=0
"$1" run -o /tmp/a.gplog -- /bin/sh -c "ls / >/dev/null; echo out; exit 7" >/tmp/out 2>/tmp/err || code=$?
[ "$code" = 7 ] || { echo "exit code $code: $(cat /tmp/err)"; exit 1; }
[ "$(cat /tmp/out)" = out ] || { echo "stdout: $(cat /tmp/out)"; exit 1; }
grep -q "Peak host heap: " /tmp/err || { echo "no summary: $(cat /tmp/err)"; exit 1; }
! grep -E "ld\.so|not found|GLIBC" /tmp/err || exit 1
"$1" report --json /tmp/a.gplog >/tmp/report
grep -q "\"exact\": *true" /tmp/report || { echo "not exact"; exit 1; }
! grep -E "GP02[01]" /tmp/report || exit 1
GPUPEAK_VERIFY_STACKS=1 "$1" run -o /tmp/v.gplog -- /bin/sh -c "ls -lR /etc >/dev/null" >/dev/null 2>&1
"$1" dump /tmp/v.gplog | grep -Eq "verified_stacks [1-9][0-9]* wrong_stacks 0 " || { echo "stacks differ"; exit 1; }
"$1" export sqlite -o /tmp/a.sqlite /tmp/a.gplog'

echo '| distribution | glibc | archive | archive, no /proc | package | wheel |'
echo '|---|---|---|---|---|---|'
for suite in "$@"; do
  root=$roots/$suite
  if [ ! -e "$root/bin/sh" ]; then
    script=/usr/share/debootstrap/scripts/$suite
    if [ ! -e "$script" ]; then script=/usr/share/debootstrap/scripts/sid; fi
    debootstrap --variant=minbase --include=python3 "$suite" "$root" "$mirror" "$script" >"$roots/$suite.log" 2>&1 || {
      echo "| $suite | – | no root: $(tail -n 1 "$roots/$suite.log") | – | – | – |"
      continue
    }
  fi
  rm -rf "$root/opt/archive" "$root/opt/package" "$root/opt/wheel"
  mkdir -p "$root/opt/archive" "$root/opt/package" "$root/opt/wheel"
  tar -C "$root/opt/archive" --strip-components 1 -xzf "$archive"
  dpkg-deb -x "$portable"/gpupeak_*.deb "$root/opt/package"
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install -q --disable-pip-version-check --no-index --no-deps --target "$root/opt/wheel" "$portable"/gpupeak-*.whl
  row="| $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release") | $(chroot "$root" ldd --version | sed -n '1s/.* //p')"
  for what in archive bare package wheel; do
    command=/opt/$what/bin/gpupeak
    if [ $what = bare ]; then command=/opt/archive/bin/gpupeak; fi
    if [ $what = package ]; then command=/opt/package/usr/bin/gpupeak; fi
    if [ $what = wheel ]; then command=/opt/wheel/gpupeak/bin/gpupeak; fi # what its script starts
    if [ $what != bare ]; then
      mount -t proc proc "$root/proc"
      mount --rbind /sys "$root/sys"
    fi
    if said=$(chroot "$root" sh -c "$try" sh "$command" 2>&1); then row+=" | runs"; else
      row+=" | fails: $said"
      failed=1
    fi
    if [ $what != bare ]; then umount -l "$root/proc" "$root/sys"; fi
  done
  echo "$row |"
done
exit $failed
