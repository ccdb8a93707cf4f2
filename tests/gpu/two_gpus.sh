#!/usr/bin/env bash
# Runs of several processes on two GPUs: torchrun with DDP and FSDP, mpirun where it is there, a DataLoader with workers, a launcher
# that replaces LD_PRELOAD. Some three minutes. Needs an installed gpupeak, two GPUs and a python3 (PYTHON) with PyTorch.
#   tests/gpu/two_gpus.sh PREFIX
# What the run's processes held is compared with what NVML says of each of them, less the causes that the ledger knows. Prints a Markdown
# table and the first screens; logs, screens and JSON go to ${OUT:-/tmp/gpupeak-gpu}/two_gpus. The last line says how many checks failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "${1:?usage: tests/gpu/two_gpus.sh PREFIX}" && pwd)
out=${OUT:-/tmp/gpupeak-gpu}/two_gpus
mkdir -p "$out"
timeout 570 "${PYTHON:-python3}" "$here/two_gpus.py" "$prefix/bin/gpupeak" "$out"
