#!/usr/bin/env bash
# gpupeak for aarch64, made and tried on a machine of another kind: cross-compiled against Debian's packages for it in a folder of
# their own, run by qemu-user. Prints a table. What an emulator cannot show is in docs/platforms.md.
# usage: aarch64.sh [-R REGEX] [-DNAME=VALUE…]   (the tests whose names match; default: all)
# Takes the command of build/tests or build/release to read the logs, else builds it. 77: cannot be had here.
# GPUPEAK_DEBIAN_MIRROR: where packages are.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
only=. options=()
while [ $# -gt 0 ]; do
  case $1 in
    -R) only=$2 && shift ;;
    *) options+=("$1") ;;
  esac
  shift
done
place=$root/build/aarch64
machine=$place/root log=$place/log.txt
skip() {
  echo "aarch64: skipped: $*"
  exit 77
}
mkdir -p "$place"

# The compiler and the emulator are programs of this machine.
missing=()
for pair in aarch64-linux-gnu-g++:g++-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static cmake:cmake ninja:ninja-build; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] || skip "these packages are missing: ${missing[*]}"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 || skip "apt-get could not install ${missing[*]} (all it said: $log)"
fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || skip "Debian's packages are unpacked by apt-get and dpkg-deb"

# Its libraries, in a folder: as packages of another architecture beside this machine's own they would have to be of the
# very same versions, so that apt-get would replace libraries here.
packages=(libc6-dev libstdc++6 libgcc-s1 libunwind8 libjemalloc-dev)
if [ "$(cat "$place/packages" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$place/apt" "$machine" "$place/packages"
  mkdir -p "$place/apt/lists/partial" "$place/apt/cache/archives/partial" "$machine"/usr/{bin,sbin,lib}
  for folder in bin sbin lib; do ln -s usr/$folder "$machine/$folder"; done
  # Of the compiler's release: its headers and start files are those of its own C library.
  echo "deb [trusted=yes] ${GPUPEAK_DEBIAN_MIRROR:-http://deb.debian.org/debian} bookworm main" >"$place/apt/sources.list"
  its_apt() {
    apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::Etc::sourcelist="$place/apt/sources.list" \
      -o Dir::Etc::sourceparts=- -o Dir::State::lists="$place/apt/lists" -o Dir::State::status=/dev/null \
      -o Dir::Cache="$place/apt/cache" -o APT::Sandbox::User=root "$@"
  }
  { its_apt -qq update && its_apt -qq install -y --download-only --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 ||
    skip "its packages cannot be had (all apt-get said: $log)"
  for package in "$place"/apt/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$machine"
  done
  # Links that start at / would lead out of the folder.
  find "$machine" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$machine$(readlink "$link")")" "$link"
  done
  rm -rf "$place/apt"
  echo "${packages[*]}" >"$place/packages"
fi

# Its programs start like any others, also those that tests start and that start themselves.
formats=/proc/sys/fs/binfmt_misc
[ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats 2>/dev/null || true
if ! grep -qs "^enabled" $formats/*aarch64*; then
  elf='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
  mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  echo ":gpupeak-aarch64:M::$elf:$mask:$(command -v qemu-aarch64-static):PF" 2>/dev/null >$formats/register ||
    skip "the kernel cannot be told how to start its programs ($formats)"
  trap 'echo -1 >'$formats/gpupeak-aarch64 EXIT
fi
export QEMU_LD_PREFIX=$machine

command=
for build in tests release; do
  if [ -z "$command" ] && [ -x "build/$build/tools/gpupeak" ]; then command=$root/build/$build/tools/gpupeak; fi
done
build=build/aarch64/build
{
  if [ -z "$command" ]; then
    cmake --preset tests && cmake --build build/tests --target gpupeak_tool && command=$root/build/tests/tools/gpupeak
  fi
  cmake -S . -B "$build" -G Ninja --toolchain cmake/aarch64.cmake -DGPUPEAK_AARCH64_ROOT="$machine" -DGPUPEAK_COMMAND="$command" \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" -DGPUPEAK_WERROR=ON \
    ${options[@]+"${options[@]}"} && cmake --build "$build" -j "$(nproc)"
} >"$log" 2>&1 || {
  tail -n 40 "$log"
  echo "aarch64: the build failed; all it said is in $log"
  exit 1
}
# What tries the emulator, or programs of this machine, in place of the library. qemu-user gives each mapping a new address
# (reload), has vfork be a fork, refuses MADV_WIPEONFORK (raw_clone), ignores MADV_POPULATE_WRITE (full_disk), makes up its
# own /proc/self/stat (start_together), delivers ignored SIGBUS for ever, and needs memory and time of its own.
beside='reload|vfork|raw_clone|full_disk|start_together|bus_ignored|many_paths_(threads|jumps)'
beside+='|unfit|stacks.(node|python)|start_programs|log_places.summary|log_keeps.(short|children)|abi.phases|torture.handover'
failed=0
ctest --test-dir "$build" -j "$(nproc)" -R "$only" -E "$beside" --timeout 300 >"$log" 2>&1 || failed=1
grep -E '\*\*\*(Failed|Timeout|Exception)|SEGFAULT' "$log" || true
echo "| tests | held | failed | cannot be tried under qemu |"
echo "|---|---|---|---|"
sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([a-z0-9_]+\.?[a-z0-9_]*)[^ ]* \.*(.*)/\1 \2/p' "$log" | awk '
  { split($1, part, "."); group = part[1] == "e2e" ? part[1] "." part[2] : part[1]; all[group]
    if (/Skipped|Not Run/) skipped[group]++; else if (/Passed/) held[group]++; else failed[group]++ }
  END { for (group in all) printf "| %s | %d | %d | %d |\n", group, held[group], failed[group], skipped[group] }' | sort
exit $failed
