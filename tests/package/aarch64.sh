#!/usr/bin/env bash
# gpupeak for aarch64, made and tried on a machine of another kind: cross-compiled against Debian's packages for it in a folder of
# their own, run by qemu-user. Its tests, with its own command; then what this machine's command says of its logs, which must be the same.
# Prints a table. What an emulator cannot show is in docs/platforms.md.
# usage: aarch64.sh [-R REGEX] [-DNAME=VALUE…]   (the tests whose names match; default: all that are built)
# Takes this machine's command of build/tests or build/release, else builds it. 77: cannot be had here.
# GPUPEAK_DEBIAN_MIRROR: where packages are.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
only='^(unit|arenas|threads|depth|names|e2e\.(cuda|stacks|arenas|ort_nodes|onnxruntime_(arena|names))|hazard|torture|abi)\.' options=()
while [ $# -gt 0 ]; do
  case $1 in
    -R) only=$2 && shift ;;
    *) options+=("$1") ;;
  esac
  shift
done
place=$root/build/aarch64
machine=$place/root log=$place/log.txt build=$place/build
skip() {
  echo "aarch64: skipped: $*"
  exit 77
}
mkdir -p "$place"
tools/aarch64_root.sh "$machine"

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

# This machine's command, and all that the tests need for the other kind.
command=
for other in tests release; do
  if [ -z "$command" ] && [ -x "build/$other/tools/gpupeak" ]; then command=$root/build/$other/tools/gpupeak; fi
done
{
  if [ -z "$command" ]; then
    cmake --preset tests && cmake --build build/tests --target gpupeak_tool && command=$root/build/tests/tools/gpupeak
  fi
  cmake -S . -B "$build" -G Ninja --toolchain cmake/aarch64.cmake -DGPUPEAK_AARCH64_ROOT="$machine" -DGPUPEAK_UNITY=ON \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" -DGPUPEAK_WERROR=ON \
    ${options[@]+"${options[@]}"} &&
    cmake --build "$build" -j "$(nproc)" --target gpupeak gpupeak_audit gpupeak_tool cuda_benchmark \
      tests/{unit,names,fake_cuda,cuda,stacks,hazards,torture,abi,arenas,ort,nvtx}/all ort_stats_client
} >"$log" 2>&1 || {
  tail -n 40 "$log"
  echo "aarch64: the build failed; all it said is in $log"
  exit 1
}

failed=0
# Logs of programs of that kind, and what both commands say of them.
its=$build/tools/gpupeak
logs=() symbols=(--sysroot "$machine")
# record NAME [OPTION…] -- PROGRAM…
record() {
  local file=$place/$1.gplog
  shift
  FAKE_CUDA_DEVICES=2 LD_LIBRARY_PATH=$build/tests/fake_cuda "$its" run -q -o "$file" "$@" >"$log" 2>&1 || failed=1
  logs+=("$file")
}
record benchmark -- "$build/examples/cuda_benchmark"
record sampled --log-max 16KiB -- "$build/examples/cuda_benchmark"
record random -- "$build/tests/cuda/cuda_random" 3
record ledger -- "$build/tests/cuda/cuda_ledger"
record callers -- "$build/tests/stacks/stacks_many_paths" callers 1000
for folder in examples preload tests/cuda tests/fake_cuda tests/stacks; do symbols+=(--debug-dir "$build/$folder"); done
tests/package/same_output.py "$command" "$its" "${symbols[@]}" "${logs[@]}" || failed=1
# The same with the portable archive, where tools/portable.sh --aarch64 has made one.
for archive in build/portable-aarch64/gpupeak-*-linux-aarch64.tar.gz; do
  [ -e "$archive" ] || continue
  rm -rf "$place/archive" && mkdir "$place/archive" && tar -C "$place/archive" --strip-components 1 -xzf "$archive"
  its=$place/archive/bin/gpupeak logs=()
  record archive -- "$build/examples/cuda_benchmark"
  echo "the archive:"
  tests/package/same_output.py "$command" "$its" "${symbols[@]}" --debug-dir "$place/archive/lib/gpupeak" "${logs[@]}" || failed=1
done

# What tries the emulator, or programs of this machine, in place of the library. qemu-user gives each mapping a new address
# (reload), has vfork be a fork, refuses MADV_WIPEONFORK (raw_clone), ignores MADV_POPULATE_WRITE (full_disk), makes up its
# own /proc/self/stat (start_together), delivers ignored SIGBUS for ever, keeps the flag
# that says nothing (bus_sysv), answers no filter's questions (unreadable_filter), dies of sizes near 2^64 (odd_sizes), has no process_vm_writev (arenas.rules), and needs memory
# and time of its own.
beside='reload|vfork|raw_clone|full_disk|start_together|bus_(ignored|sysv)|unreadable_filter|odd_sizes|many_paths_(threads|jumps)'
beside+='|unfit|stacks.(node|python)|hazard.python|arenas.rules.(bound|lazy|loaded|threads|unloaded)|start_programs|log_places.summary|log_keeps.(short|children)|abi.phases|torture.handover'
# ONNX Runtime looks up in /proc/cpuinfo which Arm it is on, and finds this machine's: it would crash.
for processor in $(seq 0 $(($(nproc) - 1))); do
  printf 'processor\t: %d\nFeatures\t: fp asimd aes crc32 atomics\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n' "$processor"
done >"$place/cpuinfo"
unshare -m sh -c 'mount --bind "$0" /proc/cpuinfo && exec "$@"' "$place/cpuinfo" \
  ctest --test-dir "$build" -j "$(nproc)" -R "$only" -E "$beside" --timeout 300 >"$log" 2>&1 || failed=1
grep -E '\*\*\*(Failed|Timeout|Exception)|SEGFAULT' "$log" || true
echo "| tests | held | failed | cannot be tried under qemu |"
echo "|---|---|---|---|"
sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([a-z0-9_]+\.?[a-z0-9_]*)[^ ]* \.*(.*)/\1 \2/p' "$log" | awk '
  { split($1, part, "."); group = part[1] == "e2e" ? part[1] "." part[2] : part[1]; all[group]
    if (/Skipped|Not Run/) skipped[group]++; else if (/Passed/) held[group]++; else failed[group]++ }
  END { for (group in all) printf "| %s | %d | %d | %d |\n", group, held[group], failed[group], skipped[group] }' | sort
exit $failed
