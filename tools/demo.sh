#!/usr/bin/env bash
# From a fresh machine to a report: installs what is missing, builds the command and its library, measures a GPU
# benchmark (on a simulated driver where there is no GPU) and a host program, and prints their reports.
# usage: demo.sh [--page] [-DNAME=VALUE…]   (--page: also Node.js and npm, where there is no npm: what report --html
# is made of comes by it; -D: to cmake, such as -DGPUPEAK_CUDA_INCLUDE_DIR=FOLDER)
set -euo pipefail
cd "$(dirname "$0")/.."
options=() what=(build)
if command -v npm >/dev/null; then what+=(page); fi  # two packages, some seconds
for argument in "$@"; do
  case $argument in
    --page) what+=(page) ;;
    -D*=*) options+=("$argument") ;;
    *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;;
  esac
  case $argument in -DGPUPEAK_CUDA_INCLUDE_DIR=?*) export GPUPEAK_HAS_CUDA_HEADERS=1 ;; esac
done
tools/bootstrap.sh "${what[@]}"
work=build/demo/run
rm -rf "$work"
mkdir -p "$work"

# logged FILE COMMAND…: in silence, unless it fails.
logged() {
  local log=$work/$1
  shift
  "$@" >"$log" 2>&1 && return
  tail -n 60 "$log" >&2
  echo "demo: $* failed; all it said is in $log" >&2
  exit 1
}
# Few processors compile the collector in few large pieces, if there is the memory for it: 2.3 GiB each.
free_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)
across=OFF
if [ "$(nproc)" -le 4 ] && [ "${free_kib:-0}" -gt $((2500000 * $(nproc))) ]; then across=ON; fi
# Compiled for an early start; `cmake --preset release` is for work.
logged configure.log cmake --preset demo -DGPUPEAK_UNITY_ACROSS=$across ${options[@]+"${options[@]}"}
echo "demo: building, a few minutes the first time; $work/build.log says how far it is" >&2
logged build.log cmake --build --preset demo -j "$(nproc)"
gpupeak=$PWD/build/demo/tools/gpupeak

title() { printf '\n==== %s\n\n' "$*"; }

benchmark=build/demo/examples/cuda_benchmark
if nvidia-smi -L >/dev/null 2>&1; then
  title "A CUDA benchmark on $(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)"
  "$gpupeak" run -o "$work/cuda.gplog" -- "$benchmark"
else
  title "A CUDA benchmark on the SIMULATED driver: this machine has no GPU. Device figures are the simulation's"
  LD_LIBRARY_PATH=$PWD/build/demo/tests/fake_cuda "$gpupeak" run -o "$work/cuda.gplog" -- "$benchmark"
fi
title "gpupeak report $work/cuda.gplog"
"$gpupeak" report "$work/cuda.gplog"

clients=${GPUPEAK_CLIENTS:-$PWD/../shared/clients}
ort=build/clients/onnxruntime
if [ -x "$clients/onnxruntime/get.sh" ] && "$clients/onnxruntime/get.sh" "$ort" >"$work/get.log" 2>&1; then
  title "onnxruntime_perf_test, ResNet-50, on the CPU: real host memory"
  "$gpupeak" run -o "$work/host.gplog" -- "$ort/onnxruntime_perf_test" -e cpu -r 10 -I -m times \
    "$ort/models/light_resnet50.onnx" 2>&1 | grep -v 'Removing initializer'
else
  title "gpupeak itself, while it writes that report as JSON: real host memory"
  "$gpupeak" run -o "$work/host.gplog" -- "$gpupeak" report --json -o "$work/cuda.json" "$work/cuda.gplog"
fi
title "gpupeak report $work/host.gplog"
"$gpupeak" report "$work/host.gplog"

title "What next"
echo "  $gpupeak run -- YOUR_BENCHMARK"
if [ -s build/demo/collector/page/page.html ]; then
  "$gpupeak" report --html "$work/cuda.html" "$work/cuda.gplog"
  echo "  $PWD/$work/cuda.html is the first run's page, for a browser"
fi
