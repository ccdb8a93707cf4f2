#!/usr/bin/env bash
# What a person gets who runs `gpupeak run -- PROGRAM` and nothing else: the screen, and what the run costs.
#   tests/gpu/default_run.sh PREFIX [ONNXRUNTIME_FOLDER [PROGRAM…]]
# PREFIX: an installed build. ONNXRUNTIME_FOLDER: onnxruntime_perf_test with its CUDA provider and models/; "" for none.
# PROGRAM: of those that default_run.py lists; all that can be run if none is named.
# ROUNDS (5): native and recorded runs by turns, each with an empty cache. SECONDS_MOST (540): no run begins that would not end by then.
# LLAMA_FOLDER: `node` and, in ll, the libraries of npm's @node-llama-cpp/linux-x64-cuda. OUT: where the screens go, besides.
# Prints each program's first screen, and a Markdown table last.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "${1:?usage: default_run.sh PREFIX [ONNXRUNTIME_FOLDER [PROGRAM…]]}" && pwd)
ort=${2:-}
shift $(($# < 2 ? $# : 2))
exec python3 "$here/default_run.py" "$prefix/bin/gpupeak" "$ort" "$@"
