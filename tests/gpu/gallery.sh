#!/usr/bin/env bash
# Records the programs of docs/gallery.md and writes their reports, as they are printed there.
#   tests/gpu/gallery.sh PREFIX OUT_FOLDER [ONNXRUNTIME_FOLDER [LLAMA_FOLDER]]
# LLAMA_FOLDER: `node` and, in ll, the libraries of npm's @node-llama-cpp/linux-x64-cuda.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
gpupeak=$(cd "${1:?usage: gallery.sh PREFIX OUT_FOLDER [ONNXRUNTIME_FOLDER [LLAMA_FOLDER]]}" && pwd)/bin/gpupeak
out=$2 ort=${3:-} llama=${4:-}
mkdir -p "$out"
cd "$(mktemp -d)" || exit 1

# one NAME COMMAND…: its log, report and, where there are pools, those.
one() {
  local name=$1
  shift
  "$gpupeak" run -o "$name.gplog" -- "$@" >"$out/$name.out" 2>"$out/$name.summary" || echo "$name: exit code $?"
  "$gpupeak" report "$name.gplog" >"$out/$name.report" 2>&1
  "$gpupeak" report --json "$name.gplog" >"$out/$name.json" 2>/dev/null
  "$gpupeak" pools --top 5 "$name.gplog" >"$out/$name.pools" 2>&1
  echo "$name: report of $(wc -l <"$out/$name.report") lines, JSON of $(wc -c <"$out/$name.json") bytes, log of $(stat -c %s "$name.gplog") bytes"
}
one torch python3 "$here/torch_model.py" resnet50 train
one jax python3 "$here/jax_matmul.py"
one cupy python3 "$here/cupy_pool.py"
python3 -c 'import flax' 2>/dev/null && one flax python3 "$here/flax_train.py"
python3 -c 'import numba.cuda' 2>/dev/null && one numba python3 "$here/numba_arrays.py"
nvcc -O2 -arch=native -o static_cudart "$here/static_cudart.cu" && one static ./static_cudart
nvidia=$(python3 -c 'import nvidia, os; print(list(nvidia.__path__)[0])')
if [ -n "$ort" ]; then
  for model in resnet50 vgg19 densenet121 squeezenet; do
    for provider in cuda cpu; do
      LD_LIBRARY_PATH=$ort:$nvidia/cu13/lib:$nvidia/cudnn/lib one "ort_${model}_$provider" \
        "$ort/onnxruntime_perf_test" -e $provider -r 20 -I -m times "$ort/models/light_$model.onnx"
    done
  done
  if python3 -c 'import onnxruntime' 2>/dev/null; then
    cp "$here/ort_infer.py" infer.py
    one ort_python python3 infer.py "$ort/models/light_vgg19.onnx"
  fi
fi
if [ -n "$llama" ]; then
  (cd "$here/../e2e" && python3 -c 'import sys, tiny_llama; tiny_llama.write(sys.argv[1])' "$OLDPWD/tiny.gguf")
  LD_LIBRARY_PATH=$nvidia/cu13/lib one llamacpp "$llama/node" "$here/llama_cuda.js" "$llama/ll" "$PWD/tiny.gguf"
fi
