#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests that need no GPU: those of programs as users have them, with warnings
# as errors; the collector's and the fuzzers' under the address and undefined-behaviour sanitizers; those with threads under
# the thread sanitizer. Ends with ctest's closing lines.
# usage: run.sh [--fast] [-DNAME=VALUE…] [ctest's options…]   (-D: to cmake, such as -DGPUPEAK_CUDA_INCLUDE_DIR=FOLDER)
# --fast: the lane of a minute, while you work: one build without sanitizers, the unit tests and one test of each kind.
set -euo pipefail
cd "$(dirname "$0")/.."
options=() chosen=() fast=
for argument in "$@"; do
  case $argument in
    --fast) fast=1 ;;
    -D*=*) options+=("$argument") ;;
    *) chosen+=("$argument") ;;
  esac
  case $argument in -DGPUPEAK_CUDA_INCLUDE_DIR=?*) export GPUPEAK_HAS_CUDA_HEADERS=1 ;; esac
done
tools/bootstrap.sh
jobs=$(nproc)
mkdir -p build

# build PRESET: configures and builds it; where that fails, what it said.
build() {
  local log=build/$1.log
  if ! cmake --preset "$1" -DGPUPEAK_BUILD_TESTS=ON ${options[@]+"${options[@]}"} >"$log" 2>&1 ||
    ! ${still[@]+"${still[@]}"} cmake --build --preset "$1" -j "$jobs" >>"$log" 2>&1; then
    grep -n -A 12 -E 'FAILED|error' "$log" | head -n 80 >&2 || true
    echo "run.sh: the build '$1' failed; all it said is in $log" >&2
    exit 1
  fi
  echo "built $1 after $SECONDS s"
}

# run PRESET ARGUMENT…: its tests; a failure is kept for the end.
failed=0
run() {
  local preset=$1
  shift
  # One more than there are processors: many tests wait for a program.
  ${still[@]+"${still[@]}"} ctest --test-dir "build/$preset" -j $((jobs + 1)) --output-on-failure "$@" ${chosen[@]+"${chosen[@]}"} || failed=$?
}

options+=(-DGPUPEAK_WERROR=ON)
if [ -n "$fast" ]; then
  options+=(-DGPUPEAK_UNIT_TESTS=)
  still=()
  build tests
  run tests -L fast
  exit $failed
fi
# Without address randomisation: clang 14's run-time library does not know the mappings of newer kernels.
still=(setarch "$(uname -m)" -R)
build tsan
run tsan -L threads
still=()
build sanitized
run sanitized -L 'unit|threads'
build tests
run tests -LE gpu
exit $failed
