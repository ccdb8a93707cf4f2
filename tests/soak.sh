#!/usr/bin/env bash
# Runs some hundred real programs of the machine with and without the preload, compares exit code and output, reads each
# log; then kills a program at random instants and looks for each device event that it had been told of. Prints Markdown;
# docs/reliability.md has such a print.
# usage: soak.sh [BUILD_FOLDER] [--kills N] [--only NAME] [--seed N]
#        soak.sh [BUILD_FOLDER] --threads MINUTES    the programs of tests/torture with eight threads instead
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release
if [[ $# -gt 0 && $1 != --* ]]; then build=$1; shift; fi
build=$(realpath "$build")
if [[ ${1:-} == --threads ]]; then
  cmake --build "$build" --target gpupeak gpupeak_tool torture_ordered_8 torture_racing_8 >/dev/null
  exec python3 tests/soak/threads.py "$build/preload/libgpupeak.so" "$build/tools/gpupeak" "$build/tests/torture" "$2"
fi
cmake --build "$build" --target gpupeak gpupeak_tool soak_acknowledge >/dev/null
. /etc/os-release
echo "$(date +%F), $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), $PRETTY_NAME"
echo
exec python3 tests/soak/soak.py "$build/preload/libgpupeak.so" "$build/tools/gpupeak" "$build/tests/fake_cuda" \
  "$build/tests/soak/soak_acknowledge" "$@"
