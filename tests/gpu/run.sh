#!/usr/bin/env bash
# Everything that only a real GPU can show. Needs an installed, relocatable gpupeak and a CUDA toolkit with
# nvcc; PyTorch, JAX and CuPy are measured if python3 has them, ONNX Runtime if its folder is given.
#   tests/gpu/run.sh PREFIX [ONNXRUNTIME_FOLDER]
# Prints Markdown tables last; logs, reports and tables go to ${OUT:-/tmp/gpupeak-gpu}.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "${1:?usage: tests/gpu/run.sh PREFIX [ONNXRUNTIME_FOLDER]}" && pwd)
ort=${2:-}
out=${OUT:-/tmp/gpupeak-gpu}
work=$(mktemp -d)
mkdir -p "$out"
gpupeak=$prefix/bin/gpupeak
preload=$prefix/lib/gpupeak/libgpupeak.so
failures=0

find_folder() { python3 - "$1" <<'PY'
import glob, os, sys
places = ["/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64"]
places += glob.glob("/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib") + glob.glob("/usr/local/cuda*/targets/*/lib")
print(next((p for p in places if os.path.exists(os.path.join(p, sys.argv[1]))), ""))
PY
}
cupti_lib=$(find_folder libcupti.so.13)
cupti_inc=$(for d in /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include "$cupti_lib/../include"; do
  [ -e "$d/cupti.h" ] && echo "$d" && break; done)
[ -n "$cupti_inc" ] || cupti_inc=$(dirname "$(find / -name cupti.h -not -path '/proc/*' 2>/dev/null | head -1)")
cuda_inc=$(dirname "$(find /usr/local/cuda/ -name cuda.h 2>/dev/null | head -1)")

echo "building the programs (CUPTI: $cupti_lib, $cupti_inc)"
g++ -std=c++17 -O2 -shared -fPIC -I"$cuda_inc" -I"$cupti_inc" -o "$work/libcupti_recorder.so" "$here/cupti_recorder.cc" \
  -L"$cupti_lib" -l:libcupti.so.13 -Wl,-rpath,"$cupti_lib" || failures=$((failures + 1))
nvcc -std=c++17 -O2 -g -arch=sm_90 -o "$work/memory_families" "$here/memory_families.cu" -lcuda -cudart shared ||
  nvcc -std=c++17 -O2 -g -arch=sm_90 -o "$work/memory_families" "$here/memory_families.cu" -lcuda || failures=$((failures + 1))
g++ -std=c++17 -O2 -I"$cuda_inc" -o "$work/call_cost" "$here/call_cost.cc" -L/usr/local/cuda/lib64/stubs -lcuda ||
  failures=$((failures + 1))

# run_case NAME COMMAND…: once under the preload and CUPTI together; the log is $work/NAME.gplog.
run_case() {
  local name=$1 code=0
  shift
  rm -f "$work/$name".cupti.*
  # env comes last: what it starts is the process that records from its start
  timeout 150 env CUDA_INJECTION64_PATH="$work/libcupti_recorder.so" CUPTI_RECORDER_OUT="$work/$name.cupti" \
    GPUPEAK_OUT="$work/$name.gplog" GPUPEAK_SUMMARY=off LD_PRELOAD="$preload" "$@" \
    >"$work/$name.out" 2>"$work/$name.err" || code=$?
  if [ $code -ne 0 ]; then
    echo "| $name | exit code $code: $(tail -1 "$work/$name.err" | cut -c1-80) | | | **FAILED** | | |" >>"$work/table"
    tail -5 "$work/$name.err"
    failures=$((failures + 1))
  fi
}
compare() {
  local name=$1
  shift
  python3 "$here/compare.py" "$gpupeak" "$name" "$work/$name.gplog" "$(ls "$work/$name".cupti.* | head -1)" "$@" \
    >>"$work/table" || failures=$((failures + 1))
  "$gpupeak" report "$work/$name.gplog" >"$work/$name.txt" 2>&1 || failures=$((failures + 1))
  grep -E 'losses|GP0(15|28)' "$work/$name.txt" >>"$work/losses"
}

: >"$work/table"
: >"$work/losses"
run_case memory_families "$work/memory_families" && compare memory_families
if python3 -c 'import torch, torchvision' 2>/dev/null; then
  run_case torch_vgg19 python3 "$here/torch_vgg19.py"
  compare torch_vgg19 --module libc10_cuda.so "$(awk '/max_memory_reserved/{print $2}' "$work/torch_vgg19.out")"
fi
python3 -c 'import jax' 2>/dev/null && { run_case jax_matmul python3 "$here/jax_matmul.py"; compare jax_matmul; }
python3 -c 'import cupy' 2>/dev/null && { run_case cupy_pool python3 "$here/cupy_pool.py"; compare cupy_pool; }
if [ -n "$ort" ]; then
  nvidia=$(python3 -c 'import nvidia, os; print(list(nvidia.__path__)[0])')
  export LD_LIBRARY_PATH="$ort:$nvidia/cu13/lib:$nvidia/cudnn/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  for model in vgg19 resnet50; do
    run_case "ort_$model" "$ort/onnxruntime_perf_test" -e cuda -r 20 -I -m times "$ort/models/light_$model.onnx"
    compare "ort_$model"
  done
fi

cost_table() {
  echo "| call | native ns | with gpupeak ns | added ns |"
  echo "|---|---|---|---|"
  for _ in 1 2 3 4 5; do
    "$work/call_cost" | sed 's/^/native /'
    GPUPEAK_OUT=$work/cost.gplog GPUPEAK_SUMMARY=off LD_PRELOAD=$preload "$work/call_cost" | sed 's/^/gpupeak /'
  done | python3 -c '
import collections, statistics, sys
times = collections.defaultdict(list)
for line in sys.stdin:
    way, call, ns = line.split()
    times[call, way].append(float(ns))
for call in sorted({c for c, _ in times}):
    native, ours = (statistics.median(times[call, way]) for way in ("native", "gpupeak"))
    print(f"| {call} | {native:.0f} | {ours:.0f} | {ours - native:.0f} |")'
}
latency_table() {
  echo "| onnxruntime_perf_test -e cuda, 200 runs | native ms | full | sampled | host off |"
  echo "|---|---|---|---|---|"
  for model in vgg19 resnet50; do
    for _ in 1 2 3 4 5; do
      for way in native full sampled off; do
        extra=(env)
        [ $way = native ] || extra=(env GPUPEAK_HOST=$way GPUPEAK_OUT="$work/lat.gplog" GPUPEAK_SUMMARY=off LD_PRELOAD="$preload")
        "${extra[@]}" "$ort/onnxruntime_perf_test" -e cuda -r 200 -I -m times "$ort/models/light_$model.onnx" \
          2>/dev/null | awk -v w=$way '/Average inference time cost/{print w, $(NF-1)}'
      done
    done | python3 -c '
import collections, statistics, sys
times = collections.defaultdict(list)
for line in sys.stdin:
    way, ms = line.split()
    times[way].append(float(ms))
native = statistics.median(times["native"])
ratios = " | ".join(f"{statistics.median(times[w]) / native:.3f}×" for w in ("full", "sampled", "off"))
print(f"| '$model' | {native:.3f} | {ratios} |")'
  done
}

{
  echo "$(date -u +%Y-%m-%d), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1), CUDA $(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
  echo
  echo "| program | kind | gpupeak: bytes handed out | CUPTI | | peak, gpupeak | peak, CUPTI |"
  echo "|---|---|---|---|---|---|---|"
  cat "$work/table"
  echo
  echo "cuMemCreate against cudaMemGetInfo: $(grep '^driver vmm' "$work/memory_families.out")"
  echo
  cost_table
  if [ -n "$ort" ]; then
    echo
    latency_table
  fi
  echo
  echo "what the reports say of losses:"
  sort "$work/losses" | uniq -c
  echo
  echo "$failures failed"
} | tee "$out/table.md"
tar czf "$out/reports.tgz" -C "$work" $(cd "$work" && ls ./*.txt ./*.out ./*.cupti.* 2>/dev/null)
tar czf "$out/logs.tgz" -C "$work" $(cd "$work" && ls ./memory_families.gplog ./ort_*.gplog ./torch_*.gplog 2>/dev/null)
[ "$failures" -eq 0 ]
