#!/usr/bin/env bash
# From a fresh machine to a report: installs what is missing, builds, measures a GPU benchmark (on a simulated
# driver where there is no GPU) and a host program, and prints their reports.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/bootstrap.sh
cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)" | tail -n 1
gpupeak=$PWD/build/release/tools/gpupeak
work=build/demo
rm -rf "$work"
mkdir -p "$work"

title() { printf '\n==== %s\n\n' "$*"; }

benchmark=build/release/examples/cuda_benchmark
if nvidia-smi -L >/dev/null 2>&1; then
  title "A CUDA benchmark on $(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)"
  "$gpupeak" run -o "$work/cuda.gplog" -- "$benchmark"
else
  title "A CUDA benchmark on the SIMULATED driver: this machine has no GPU. Device figures are the simulation's"
  LD_LIBRARY_PATH=$PWD/build/release/tests/fake_cuda "$gpupeak" run -o "$work/cuda.gplog" -- "$benchmark"
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
  title "python3 building and dumping JSON: real host memory"
  PYTHONMALLOC=malloc "$gpupeak" run -o "$work/host.gplog" -- /usr/bin/python3 -c \
    'import json; print(len(json.dumps([{"k": i, "v": [str(i)] * 5} for i in range(60000)])))'
fi
title "gpupeak report --by module $work/host.gplog"
"$gpupeak" report --by module "$work/host.gplog"
