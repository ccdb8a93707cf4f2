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
for program in ledger_families capture_modes; do
  nvcc -std=c++17 -O2 -arch=sm_90 -o "$work/$program" "$here/$program.cu" -lcuda || failures=$((failures + 1))
done

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
  grep -E 'losses|GP0[0-9]{2}' "$work/$name.txt" >>"$work/losses"
}

: >"$work/table"
: >"$work/losses"
run_case memory_families "$work/memory_families" && compare memory_families
if python3 -c 'import torch, torchvision' 2>/dev/null; then
  run_case torch_vgg19 python3 "$here/torch_model.py" vgg19 infer
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

# phase_case NAME SOURCE PHASE…: phases that nobody asked for, and that they add up to what is live at exit.
: >"$work/phase_table"
phase_case() {
  local name=$1
  shift
  python3 "$here/phases.py" "$gpupeak" "$name" "$work/$name.gplog" "$@" >>"$work/phase_table" || failures=$((failures + 1))
}
[ -e "$work/torch_vgg19.gplog" ] && phase_case torch_vgg19 nvtx build infer=3 features.0=3 classifier.6=3
if [ -n "$ort" ]; then
  for model in vgg19 resnet50; do
    # one run more than asked for: the program warms up
    phase_case ort_$model ort create_env=1 append_provider create_session=1 run=21 release_session=1
  done
fi

# ledger_case NAME [VARIABLE=VALUE…] COMMAND…: what nvidia-smi shows, explained. The program's last line "in_use N", if
# it has one, is what cudaMemGetInfo told it.
ledger_case() {
  local name=$1 code=0
  shift
  timeout 150 env GPUPEAK_HOST=off GPUPEAK_OUT="$work/ledger_$name.gplog" GPUPEAK_SUMMARY=off LD_PRELOAD="$preload" "$@" \
    >"$work/ledger_$name.out" 2>"$work/ledger_$name.err" || code=$?
  "$gpupeak" report --json "$work/ledger_$name.gplog" >"$work/ledger_$name.json" 2>>"$work/ledger_$name.err"
  "$gpupeak" report "$work/ledger_$name.gplog" >"$work/ledger_$name.txt" 2>&1
  if [ $code -ne 0 ]; then
    echo "| $name | **exit code $code**: $(tail -1 "$work/ledger_$name.err" | cut -c1-80) | | | | | |" >>"$work/ledger_table"
    failures=$((failures + 1))
  else
    python3 "$here/ledger.py" "$work/ledger_$name.json" "$name" "$(awk '$1 == "in_use" {print $2}' "$work/ledger_$name.out" | tail -1)" \
      >>"$work/ledger_table" || failures=$((failures + 1))
  fi
}
: >"$work/ledger_table"
ledger_case families "$work/ledger_families"
if python3 -c 'import torch, torchvision' 2>/dev/null; then
  for model in vgg19 resnet50; do
    for mode in infer train graph benchmark; do ledger_case "torch_${model}_$mode" python3 "$here/torch_model.py" $model $mode; done
  done
  ledger_case torch_expandable PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python3 "$here/torch_model.py" vgg19 train
  ledger_case torch_async PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync python3 "$here/torch_model.py" vgg19 train
fi
python3 -c 'import jax' 2>/dev/null && ledger_case jax python3 "$here/jax_matmul.py"
if python3 -c 'import cupy' 2>/dev/null; then
  ledger_case cupy_pool python3 "$here/cupy_pool.py"
  ledger_case cupy_async python3 "$here/cupy_async.py"
  ledger_case cublas_cufft_cusolver_curand python3 "$here/cupy_libraries.py"
fi
if [ -n "$ort" ]; then
  for search in 0 1 2; do
    ledger_case "ort_resnet50_d$search" "$ort/onnxruntime_perf_test" -e cuda -d $search -r 5 -I -m times "$ort/models/light_resnet50.onnx"
  done
  for option in "arena_extend_strategy|kSameAsRequested" "gpu_mem_limit|2147483648"; do
    ledger_case "ort_vgg19_${option%%|*}" "$ort/onnxruntime_perf_test" -e cuda -i "$option" -r 5 -I -m times "$ort/models/light_vgg19.onnx"
  done
fi
# The same network with each of the three ways to choose a convolution, to be compared. The arena takes what is asked
# for, or its doubling would hide the difference.
if [ -n "$ort" ]; then
  for search in 0 1 2; do
    env GPUPEAK_OUT="$work/vgg19_d$search.gplog" GPUPEAK_SUMMARY=off LD_PRELOAD="$preload" \
      "$ort/onnxruntime_perf_test" -e cuda -d $search -i "arena_extend_strategy|kSameAsRequested" -r 20 -I -m times \
      "$ort/models/light_vgg19.onnx" >"$work/vgg19_d$search.out" 2>&1
    "$gpupeak" bundle "$work/vgg19_d$search.gplog" -o "$out/vgg19_d$search.gpz" >>"$work/vgg19_d$search.out" 2>&1 ||
      failures=$((failures + 1))
  done
fi
# Another process comes while the first one runs: its memory goes to no cause.
"$work/ledger_families" hold 6 >"$work/hold.out" &
sleep 2
ledger_case beside_another "$work/ledger_families"
wait
if python3 -c 'import torch' 2>/dev/null; then
  GPUPEAK_HOST=off GPUPEAK_OUT="$work/nccl.%p.gplog" GPUPEAK_SUMMARY=off LD_PRELOAD="$preload" python3 "$here/torch_nccl.py" \
    >"$work/nccl.out" 2>"$work/nccl.err" || { failures=$((failures + 1)); tail -3 "$work/nccl.err"; }
  for log in "$work"/nccl.*.gplog; do
    "$gpupeak" report --json "$log" >"$log.json"
    python3 "$here/ledger.py" "$log.json" "nccl_${log##*/nccl.}" >>"$work/ledger_table" || failures=$((failures + 1))
  done
fi

# Python's lines: against PyTorch's own record of its stacks, and those of the scripts above.
: >"$work/sites_table"
python_lines() {
  local name=$1 script=$2
  shift 2
  [ -e "$work/ledger_$name.gplog" ] || return 0
  python3 "$here/python_sites.py" lines "$gpupeak" "$name" "$work/ledger_$name.gplog" "$here/$script" "$@" >>"$work/sites_table" ||
    failures=$((failures + 1))
}
if python3 -c 'import torch, torchvision' 2>/dev/null; then
  GPUPEAK_HOST=off "$gpupeak" run -q -o "$work/torch_sites.gplog" -- python3 "$here/python_sites.py" record "$work/sites.json" \
    >"$work/torch_sites.out" 2>"$work/torch_sites.err" || { failures=$((failures + 1)); tail -3 "$work/torch_sites.err"; }
  python3 "$here/python_sites.py" compare "$gpupeak" "$work/torch_sites.gplog" "$work/sites.json" >"$work/torch_sites.txt" 2>&1
  sites=$?
  [ $sites -eq 0 ] || failures=$((failures + 1))
  echo "| torchvision VGG-19, inference and training | $(tail -1 "$work/torch_sites.txt") | | $([ $sites -eq 0 ] && echo good || echo '**DIFFERS**') |" \
    >>"$work/sites_table"
fi
python_lines jax jax_matmul.py jnp.ones
python_lines cupy_pool cupy_pool.py cupy.ones 'a @ a'

# tag_case NAME LOG SET TAG[|TAG]…: what the shipped rules make of these logs.
: >"$work/tag_table"
tag_case() {
  local name=$1 log=$work/$2.gplog
  shift 2
  [ -e "$log" ] || return 0
  python3 "$here/tags.py" "$gpupeak" "$name" "$log" "$@" >>"$work/tag_table" || failures=$((failures + 1))
  "$gpupeak" tags "$log" >"${log%.gplog}.tags.txt" 2>&1
}
tag_case "PyTorch, VGG-19, training" torch_sites pytorch parameters gradients "optimizer state" convolutions
tag_case "JAX, matrix product" ledger_jax jax "XLA|XLA pool|constants"
tag_case "CuPy, matrix product" ledger_cupy_pool cuda "cuBLAS workspace"
tag_case "ONNX Runtime, VGG-19" ort_vgg19 onnxruntime "CUDA provider"
tag_case "ONNX Runtime, ResNet-50" ort_resnet50 onnxruntime "CUDA provider"

# Modules by name: their sums, what is said, and what it costs.
: >"$work/modules_table"
: >"$work/last_use_table"
if python3 -c 'import torch' 2>/dev/null; then
  python3 "$here/torch_modules.py" "$gpupeak" >"$work/modules_table" 2>"$work/modules.err" || failures=$((failures + 1))
fi
python3 "$here/last_use.py" "$gpupeak" "$work/last_use" ${ort:+--ort "$ort"} >"$work/last_use_table" 2>"$work/last_use.err" || failures=$((failures + 1))

# The ranges that libraries make themselves, wherever any of these programs called them.
own_ranges=$(python3 - "$work"/*.json <<'PY'
import collections, json, sys
domains = collections.defaultdict(collections.Counter)
for path in sys.argv[1:]:
    report = json.load(open(path, encoding="utf-8"))
    for phase in report.get("phases", []) if isinstance(report, dict) else []:
        domain, colon, name = phase["name"].partition(":")
        if phase["source"] == "nvtx" and colon:
            domains[domain][name] += phase["count"]
for domain, names in sorted(domains.items()):
    shown = ", ".join(f"{name} {count}" for name, count in names.most_common(4))
    print(f"{domain} {sum(names.values())} of {len(names)} names ({shown} …);", end=" ")
PY
)
# A library that can be told of a tool has the variable's name in it.
for library in libnccl.so.2 libcublas.so.13 libcublasLt.so.13 libcudnn_graph.so.9; do
  path=$(find_folder $library)/$library
  [ -e "$path" ] || continue
  grep -qa NVTX_INJECTION64_PATH "$path" && can=yes || can=no
  own_ranges="$own_ranges $library can have ranges: $can;"
  if [ $library$can = libnccl.so.2yes ] && python3 -c 'import torch' 2>/dev/null; then
    case "$own_ranges" in *NCCL*) ;; *) own_ranges="$own_ranges **NCCL has none**"; failures=$((failures + 1)) ;; esac
  fi
done

"$work/capture_modes" >"$work/capture.alone" 2>&1
GPUPEAK_OUT="$work/capture.gplog" GPUPEAK_SUMMARY=off LD_PRELOAD="$preload" "$work/capture_modes" >"$work/capture.with" 2>&1
if cmp -s "$work/capture.alone" "$work/capture.with"; then
  captures="equal: $(wc -l <"$work/capture.alone") results of calls during captures, all three modes, own thread and another"
else
  captures="**DIFFERS**: $(diff "$work/capture.alone" "$work/capture.with" | head -3 | tr '\n' ' ')"
  failures=$((failures + 1))
fi

{
  echo "$(date -u +%Y-%m-%d), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1), CUDA $(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
  echo
  echo "| program | kind | gpupeak: bytes handed out | CUPTI | | peak, gpupeak | peak, CUPTI |"
  echo "|---|---|---|---|---|---|---|"
  cat "$work/table"
  echo
  echo "| program | in use at the peak | tracked | unexplained | in use at exit | tracked | unexplained |"
  echo "|---|---|---|---|---|---|---|"
  cat "$work/ledger_table"
  echo
  echo "| phases without any option | phase | ms | device entry / peak / exit / kept, MiB | host entry / peak / exit / kept, MiB |"
  echo "|---|---|---|---|---|"
  cat "$work/phase_table"
  echo
  echo "NVTX ranges of the libraries themselves: $own_ranges"
  echo
  echo "| program | Python line | device bytes allocated | |"
  echo "|---|---|---|---|"
  cat "$work/sites_table"
  echo
  echo "| program | rule sets that applied | peak, device | bytes by tag | Others | |"
  echo "|---|---|---|---|---|---|"
  cat "$work/tag_table"
  echo
  cat "$work/modules_table" "$work/last_use_table"
  echo
  echo "captures with and without gpupeak: $captures"
  echo
  echo "cuMemCreate against cudaMemGetInfo: $(grep '^driver vmm' "$work/memory_families.out")"
  echo
  bash "$here/costs.sh" "$prefix" "$ort"
  echo
  echo "what the reports say of losses:"
  sort "$work/losses" | uniq -c
  echo
  echo "$failures failed"
} | tee "$out/table.md"
tar czf "$out/reports.tgz" -C "$work" $(cd "$work" && ls ./*.txt ./*.out ./*.err ./*.cupti.* ./capture.* 2>/dev/null)
tar czf "$out/logs.tgz" -C "$work" $(cd "$work" && ls ./memory_families.gplog ./ort_*.gplog ./torch_*.gplog 2>/dev/null)
[ "$failures" -eq 0 ]
