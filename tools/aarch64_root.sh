#!/usr/bin/env bash
# What a cross build for aarch64 needs: the compiler and the emulator, as programs of this machine, and its libraries, in a
# folder: as packages of another architecture beside this machine's own they would have to be of the very same versions, so
# that apt-get would replace libraries here.
# usage: aarch64_root.sh FOLDER   (nothing is done twice)
# 77: cannot be had here, and a line says why. GPUPEAK_DEBIAN_MIRROR: where packages are.
set -euo pipefail
machine=$1
# What the command, its tests and the programs under test are made of; all that they depend on comes along.
packages=(libc6-dev libstdc++6 libgcc-s1 libunwind8 libjemalloc-dev libdw-dev libelf-dev libfmt-dev libspdlog-dev libcli11-dev
  libzstd-dev libmd-dev nlohmann-json3-dev libtomlplusplus-dev libsqlite3-dev zlib1g-dev libprotozero-dev libncurses-dev
  libbz2-dev liblzma-dev libiberty-dev libutf8proc-dev catch2)
skip() {
  echo "aarch64: skipped: $*" >&2
  exit 77
}
missing=()
for pair in aarch64-linux-gnu-g++:g++-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static cmake:cmake ninja:ninja-build; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
mkdir -p "$machine"
machine=$(cd "$machine" && pwd)
log=$machine/log.txt
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] || skip "these packages are missing: ${missing[*]}"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 || skip "apt-get could not install ${missing[*]} (all it said: $log)"
fi
[ "$(cat "$machine/packages" 2>/dev/null)" != "${packages[*]}" ] || exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || skip "Debian's packages are unpacked by apt-get and dpkg-deb"

apt=$machine/apt
rm -rf "$machine"
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$machine"/usr/{bin,sbin,lib}
for folder in bin sbin lib; do ln -s usr/$folder "$machine/$folder"; done
# Of the compiler's release: its headers and start files are those of its own C library.
echo "deb [trusted=yes] ${GPUPEAK_DEBIAN_MIRROR:-http://deb.debian.org/debian} bookworm main" >"$apt/sources.list"
its_apt() {
  apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::Etc::sourcelist="$apt/sources.list" \
    -o Dir::Etc::sourceparts=- -o Dir::State::lists="$apt/lists" -o Dir::State::status=/dev/null \
    -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root "$@"
}
{ its_apt -qq update && its_apt -qq install -y --download-only --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 ||
  skip "its packages cannot be had (all apt-get said: $log)"
for package in "$apt"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$machine"
done
# Links that start at / would lead out of the folder.
find "$machine" -type l -lname '/*' | while read -r link; do
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$machine$(readlink "$link")")" "$link"
done
rm -rf "$apt"
echo "${packages[*]}" >"$machine/packages"
