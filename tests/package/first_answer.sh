#!/usr/bin/env bash
# From each file that tools/portable.sh makes to a first answer, as docs/hurry/install.md says it: one command installs, a second one
# records a program and prints what held its memory. In fresh root file systems made by debootstrap (as root), each file in an untouched one;
# `report` and the page follow. The .rpm goes by the distribution's dnf into a root whose rpm database is empty: no root of Fedora can be
# had without its mirror. Prints a table.
# usage: first_answer.sh PORTABLE_FOLDER ROOTS_FOLDER [SUITE…]   (ROOTS_FOLDER is kept; GPUPEAK_DEBIAN_MIRROR, GPUPEAK_UBUNTU_MIRROR)
set -euo pipefail
portable=$(cd "$1" && pwd)
mkdir -p "$2"
roots=$(cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- bullseye bookworm trixie jammy noble
failed=0 root=$roots/now
away() {
  umount -l "$root/proc" "$root/dev" 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
trap away EXIT

# make SUITE: a root with Python, and with dnf, whose own database of packages is empty.
make() {
  local mirror=${GPUPEAK_DEBIAN_MIRROR:-http://deb.debian.org/debian} script=/usr/share/debootstrap/scripts/$1 options=()
  if [ "$1" = jammy ] || [ "$1" = noble ]; then
    mirror=${GPUPEAK_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu} options=(--no-check-gpg "--components=main,universe")
  fi
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
  [ "$1" != noble ] || script=/usr/share/debootstrap/scripts/jammy
  debootstrap --variant=minbase --include=python3,python3-venv ${options[@]+"${options[@]}"} "$1" "$roots/$1.new" "$mirror" "$script" &&
    chroot "$roots/$1.new" apt-get install -y -qq --no-install-recommends dnf &&
    mv "$roots/$1.new" "$roots/$1"
}

# What a newcomer types, in the folder with the file; `install` is timed, the answer has to be one.
# shellcheck disable=SC2016 # it expands in the root
try='set -e
cd /root
now() { date +%s%N; }
tenths() { echo "$((($2 - $1) / 1000000000)).$((($2 - $1) / 100000000 % 10))"; }
begin=$(now)
eval "$1" >said 2>&1 || { tail -n 1 said; exit 1; }
installed=$(now)
eval "$2 run -o a.gplog -- python3 -c \"data = bytearray(50 << 20)\"" >said 2>&1 || { tail -n 1 said; exit 1; }
answered=$(now)
grep -q "50.0 MiB" said && grep -q "✓ complete" said && grep -q "^Peak host memory: " said || { echo "no answer: $(head -n 3 said)"; exit 1; }
eval "$2 report a.gplog" >said 2>&1 && grep -q "50.0 MiB" said || { echo "no report: $(tail -n 1 said)"; exit 1; }
eval "$2 report --html a.html a.gplog" >said 2>&1 && [ -s a.html ] || { echo "no page: $(tail -n 1 said)"; exit 1; }
echo "$(tenths $begin $installed) + $(tenths $installed $answered) s"'

echo '| distribution | archive | .deb | .rpm | wheel |'
echo '|---|---|---|---|---|'
for suite in "$@"; do
  [ -e "$roots/$suite" ] || make "$suite" >"$roots/$suite.log" 2>&1 || {
    echo "| $suite | no root: $(tail -n 1 "$roots/$suite.log") | | | |"
    continue
  }
  row="| $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$roots/$suite/etc/os-release")"
  for file in "$portable"/gpupeak-*-linux-x86_64.tar.gz "$portable"/gpupeak_*_amd64.deb "$portable"/gpupeak-*.x86_64.rpm "$portable"/gpupeak-*x86_64.whl; do
    away
    cp -a "$roots/$suite" "$root"
    cp "$file" "$root/root"
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
    command=gpupeak
    case $file in
      *.tar.gz) install="tar -C /opt -xzf gpupeak-*.tar.gz" command='/opt/gpupeak-*/bin/gpupeak' ;;
      *.deb) install="apt-get install -y ./gpupeak_*.deb" ;; # apt, where nobody looks on
      *.rpm) install="dnf install -y --disablerepo='*' ./gpupeak-*.rpm" ;;
      *.whl)
        install="pip install --no-index gpupeak-*.whl"
        chroot "$root" python3 -m venv /root/venv
        ;;
    esac
    if said=$(chroot "$root" env -i PATH=/root/venv/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C.UTF-8 sh -c "$try" sh "$install" "$command" 2>&1); then
      row+=" | $said"
    else
      row+=" | fails: $said" failed=1
    fi
  done
  echo "$row |"
done
exit $failed
