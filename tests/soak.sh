#!/usr/bin/env bash
# Runs some hundred real programs of the machine with and without the preload, compares exit code and output, reads each
# log; then kills a program at random instants and looks for each device event that it had been told of. Prints Markdown;
# docs/reliability.md has what such a print says.
# usage: soak.sh [BUILD_FOLDER] [--kills N] [--only NAME] [--seed N]
#        soak.sh [BUILD_FOLDER] --threads MINUTES    the programs of tests/torture with eight threads instead
#        soak.sh [BUILD_FOLDER] --attach ROUNDS    attaches to busy programs and leaves them, so often each, instead
#        soak.sh [BUILD_FOLDER] --stops RUNS [--jobs N] [--seconds S]    programs that are stopped, RUNS times in each host mode, instead:
#                                                    twelve kinds of stop where gdb, gdc, Go and Mono are there
#        soak.sh [BUILD_FOLDER] --hazards RUNS [--jobs N] [--seconds S] [--limit S]    the same for the programs of tests/soak/hazards.txt
#        soak.sh [BUILD_FOLDER] --ways TIMES    each way to start a program and `run`, so often
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release
if [[ $# -gt 0 && $1 != --* ]]; then build=$1; shift; fi
build=$(realpath "$build")
say_machine() {
  . /etc/os-release
  echo "$(date +%F), $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), $PRETTY_NAME"
  echo
}
if [[ ${1:-} == --threads ]]; then
  cmake --build "$build" --target gpupeak gpupeak_tool torture_ordered_8 torture_racing_8 >/dev/null
  exec python3 tests/soak/threads.py "$build/preload/libgpupeak.so" "$build/tools/gpupeak" "$build/tests/torture" "$2"
fi
if [[ ${1:-} == --attach ]]; then
  cmake --build "$build" --target gpupeak gpupeak_tool tests/soak/all >/dev/null
  say_machine
  exec python3 tests/soak/attach.py "$build/tools/gpupeak" "$build/tests/soak" "${@:2}"
fi
if [[ ${1:-} == --hazards ]]; then
  cmake --build "$build" --target gpupeak tests/hazards/all >/dev/null
  say_machine
  cd "$build/tests/hazards"
  exec python3 "$OLDPWD/tests/soak/stops.py" "${@:3}" --list "$OLDPWD/tests/soak/hazards.txt" "$build/preload/libgpupeak.so" "$2"
fi
if [[ ${1:-} == --ways ]]; then
  cmake --build "$build" --target gpupeak gpupeak_tool e2e_use_gpu e2e_start_programs fake_cuda >/dev/null
  say_machine
  exec python3 tests/e2e/ways_of_starting.py "$build/preload/libgpupeak.so" "$build/tools/gpupeak" "$build/tests/e2e/e2e_use_gpu" \
    "$build/tests/e2e/e2e_start_programs" "$build/tests/fake_cuda" --times "$2"
fi
if [[ ${1:-} == --stops ]]; then
  runs=$2
  shift 2
  cmake --build "$build" --target gpupeak hazard_stop_world hazard_stop_one >/dev/null
  cd "$build/tests/hazards"
  kinds=()
  add() { kinds+=(-- "$@"); }
  for what in allocate map start generated; do add ./hazard_stop_world "$what" 20; done
  for what in thread signal process; do add ./hazard_stop_one "$what" 20; done
  if command -v gdb >/dev/null; then add gdb ./hazard_stop_one marked 10; fi
  for collector in '' _d _go _mono; do
    cmake --build "$build" --target "hazard_collected$collector${collector:+_program}" >/dev/null 2>&1 || continue  # nothing to build it with
    if [[ $collector == _mono ]]; then add mono ./hazard_collected_mono 3; else add "./hazard_collected$collector" 3; fi
  done
  export MONO_THREADS_SUSPEND=preemptive  # by signals
  exec python3 "$OLDPWD/tests/soak/stops.py" "$@" "$build/preload/libgpupeak.so" "$runs" "${kinds[@]:1}"
fi
cmake --build "$build" --target gpupeak gpupeak_tool soak_acknowledge >/dev/null
say_machine
exec python3 tests/soak/soak.py "$build/preload/libgpupeak.so" "$build/tools/gpupeak" "$build/tests/fake_cuda" \
  "$build/tests/soak/soak_acknowledge" "$@"
