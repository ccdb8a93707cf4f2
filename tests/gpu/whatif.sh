#!/usr/bin/env bash
# `gpupeak whatif` against the truth: programs are recorded, a change is asked for, then really made and recorded again.
#   tests/gpu/whatif.sh PREFIX [ONNXRUNTIME_FOLDER [CASE…]]
# PREFIX: an installed build. ONNXRUNTIME_FOLDER: onnxruntime_perf_test with its CUDA provider and models/; "" for none.
# CASE: of those that whatif.py lists; all that can be run if none is named. Needs nvcc, and PyTorch and JAX for theirs.
# Prints a Markdown table; its logs go to ${OUT:-/tmp/gpupeak-gpu}/whatif. Exit code 1: an answer was wrong.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "${1:?usage: whatif.sh PREFIX [ONNXRUNTIME_FOLDER [CASE…]]}" && pwd)
ort=${2:-}
shift $(($# < 2 ? $# : 2))
out=${OUT:-/tmp/gpupeak-gpu}/whatif
mkdir -p "$out"
nvcc -std=c++17 -O1 -g -arch=sm_90 -o "$out/whatif_cuda" "$here/whatif.cu" -lcuda || exit 2
exec python3 "$here/whatif.py" "$prefix/bin/gpupeak" "$out" "$ort" "$@"
