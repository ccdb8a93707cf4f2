#!/usr/bin/env bash
# Whether what `gpupeak fit` and `gpupeak sweep` say fits does, on a real GPU, PyTorch's ResNet-50 and a transformer: seven minutes. With
# `--onnxruntime FOLDER vgg19` ONNX Runtime's VGG-19 instead.
#   tests/gpu/fit.sh PREFIX [OPTION | PROGRAM]…
# The tables and a last line go to standard output, and to ${OUT:-/tmp/gpupeak-gpu}/fit.txt; the logs beside it, in fit.tar.gz.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "${1:?usage: tests/gpu/fit.sh PREFIX [OPTION | PROGRAM]…}" && pwd)
shift
out=${OUT:-/tmp/gpupeak-gpu}
mkdir -p "$out"
timeout 590 python3 "$here/fit.py" "$prefix/bin/gpupeak" --keep "$out/fit" "$@" | tee "$out/fit.txt"
