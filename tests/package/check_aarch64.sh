#!/usr/bin/env bash
# The library that is preloaded, the simulated driver and its clients for aarch64: cross-compiled with what comes with the
# compiler, run by qemu-user. What was logged is compared with the simulated driver's own account, and read by this machine's command.
# usage: check_aarch64.sh BUILD_FOLDER GPUPEAK CUDA_INCLUDE_FOLDER   (77: cannot be tried here)
set -euo pipefail
build=$1 command=$2 cuda=$3
for program in aarch64-linux-gnu-g++:g++-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static; do
  command -v "${program%%:*}" >/dev/null || {
    echo "package.aarch64: skipped: no ${program%%:*} (Debian: ${program#*:})"
    exit 77
  }
done
clients=(linear host_memory pools vmm arrays contexts failures unseen reuse lookup first_abi capture imports random runtime)
source=$(cd "$(dirname "$0")/../.." && pwd)
cmake -S "$source" -B "$build" -G Ninja --toolchain "$source/cmake/aarch64.cmake" "-DGPUPEAK_COMMAND=$command" \
  "-DGPUPEAK_CUDA_INCLUDE_DIR=$cuda" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" \
  -DGPUPEAK_UNITY=ON -DGPUPEAK_WERROR=ON
cmake --build "$build" -j 2 --target gpupeak fake_cuda fake_nvml "${clients[@]/#/cuda_}"
tests=$(printf '|%s' "${clients[@]}")
# Not what starts programs of its own, for which the kernel would have to know the emulator.
ctest --test-dir "$build" -j 2 -R "^e2e\.cuda\.(${tests#|})(_(free_)?[0-9]|_dlsym|_limited)?\$" --no-tests=error --output-on-failure --timeout 600
