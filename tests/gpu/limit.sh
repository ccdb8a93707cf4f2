#!/usr/bin/env bash
# `gpupeak run --limit` on a real GPU against a second process that really holds the rest of the card.
#   tests/gpu/limit.sh PREFIX [ONNXRUNTIME_FOLDER]
# PYTHON: one that has PyTorch and torchvision (python3). OUT: where logs go. PARTS: of figures calls resnet vgg19 llama ort; all.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "${1:?usage: tests/gpu/limit.sh PREFIX [ONNXRUNTIME_FOLDER]}" && pwd)
ort=${2:-}
out=${OUT:-$(mktemp -d)}/limit
exec "${PYTHON:-python3}" "$here/limit.py" "$prefix/bin/gpupeak" "$out" ${ort:+"$ort/onnxruntime_perf_test" "$ort/models/light_vgg19.onnx"}
