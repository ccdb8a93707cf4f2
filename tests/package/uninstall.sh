#!/usr/bin/env bash
# Each way of tools/portable.sh's files into a system and out of it again (as root): the command runs in between, and afterwards all
# files are as before. Prints a table; docs/platforms.md has what it says.
# usage: uninstall.sh PORTABLE_FOLDER ROOT   (ROOT: a root file system of debootstrap's; what has /proc)
set -euo pipefail
portable=$(cd "$1" && pwd) root=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'umount -l "$root/proc" 2>/dev/null || true; rm -rf "$work"' EXIT
mount -t proc proc "$root/proc"
failed=0

# files FOLDER: all of them with their sizes, but for what package managers write about themselves.
files() {
  find "$1" -xdev \( -path "$1/proc" -o -path "$1/tmp" -o -path "$1/var/lib/dpkg" -o -path "$1/var/log" -o -path "$1/var/lib/rpm" \
    -o -path "$1/usr/lib/sysimage" -o -path "$1/root/.rpmdb" -o -path "$1/root/.cache" \) -prune -o \( -type f -o -type l \) -printf '%P %s\n' | sort
}
# records COMMAND…: a shell, whose exit code and output stay its own.
records() {
  local code=0
  "$@" run -o /tmp/a.gplog -- /bin/sh -c 'echo out; exit 7' >"$work/out" 2>"$work/err" || code=$?
  [ $code = 7 ] && [ "$(cat "$work/out")" = out ] && grep -q 'Peak host heap: ' "$work/err" || { cat "$work/err"; return 1; }
}
# try WHAT FOLDER INSTALL REMOVE COMMAND…: a row.
try() {
  local what=$1 folder=$2 install=$3 remove=$4
  shift 4
  files "$folder" >"$work/before"
  if ("$install") >"$work/said" 2>&1 && ! files "$folder" | cmp -s - "$work/before" && records "$@" >>"$work/said" 2>&1 &&
    ("$remove") >>"$work/said" 2>&1 && files "$folder" | diff "$work/before" - >>"$work/said"; then
    echo "| $what | runs | nothing is left |"
  else
    echo "| $what | fails: $(tail -n 3 "$work/said" | tr '\n' ' ') | |"
    failed=1
  fi
}

cp "$portable"/gpupeak_*.deb "$root/tmp/gpupeak.deb"
deb_in() { chroot "$root" dpkg -i /tmp/gpupeak.deb; }
deb_out() { chroot "$root" dpkg -r gpupeak; }
rpm_in() { rpm --root "$root" --initdb && rpm --root "$root" --nodeps --ignoreos -i "$portable"/gpupeak*.rpm; }
rpm_out() { rpm --root "$root" -e gpupeak; }
python3 -m venv "$work/venv"
wheel_in() { "$work/venv/bin/pip" install -q --no-index --disable-pip-version-check "$portable"/gpupeak-*.whl; }
wheel_out() { "$work/venv/bin/pip" uninstall -q -y gpupeak; }

echo '| file | installed by | it | removed |'
echo '|---|---|---|---|'
try '.deb | dpkg -i, dpkg -r' "$root" deb_in deb_out chroot "$root" /usr/bin/gpupeak
try '.rpm | rpm --root -i, rpm --root -e' "$root" rpm_in rpm_out chroot "$root" /usr/bin/gpupeak
try 'wheel | pip install, pip uninstall' "$work/venv" wheel_in wheel_out "$work/venv/bin/gpupeak"
rm -f "$root/tmp/gpupeak.deb" "$root/tmp/a.gplog" /tmp/a.gplog
exit $failed
