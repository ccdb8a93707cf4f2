#!/usr/bin/env bash
# Where tools/find_cuda_headers.sh finds headers: as a toolkit, pip and conda lay them out. Of a release that no machine has yet, so that
# those of this machine are too old for it.
# usage: check_headers.sh FIND_CUDA_HEADERS
set -euo pipefail
find=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# headers FOLDER VERSION
headers() {
  mkdir -p "$work/$1"
  echo "#define CUDA_VERSION $2" >"$work/$1/cuda.h"
  touch "$work/$1/cudaTypedefs.h"
}
# found FOLDER NAME=VALUE…: by these variables, a user's own folder being empty unless told.
found() {
  local place
  place=$(env -u CUDA_HOME -u CUDA_PATH -u CONDA_PREFIX -u VIRTUAL_ENV "HOME=$work/nobody" "${@:2}" "$find" 99000) || place=none
  [ "${place#"$work"/}" = "$1" ] || {
    echo "with ${*:2}: $place, not $1"
    exit 1
  }
}
python=lib/python3.11/site-packages/nvidia
for folder in toolkit/include cross/targets/x86_64-linux/include sbsa/targets/sbsa-linux/include plain conda/targets/x86_64-linux/include \
  cu12/$python/cu12/include cu13/$python/cu13/include runtime/$python/cuda_runtime/include user/.local/$python/cu13/include; do
  headers "$folder" 99010
done
found none
found toolkit/include "CUDA_HOME=$work/toolkit"
found toolkit/include "CUDA_PATH=$work/toolkit"
found cross/targets/x86_64-linux/include "CUDA_HOME=$work/cross"
found sbsa/targets/sbsa-linux/include "CUDA_HOME=$work/sbsa"
found plain "CUDA_HOME=$work/plain"
found conda/targets/x86_64-linux/include "CONDA_PREFIX=$work/conda"
for kind in cu12 cu13 runtime; do
  found $kind/$python/"${kind/runtime/cuda_runtime}"/include "VIRTUAL_ENV=$work/$kind"
done
found user/.local/$python/cu13/include "HOME=$work/user"

# What the user names comes first, then the newest; what is too old or half there is none.
headers newer/$python/cu13/include 99020
headers newest/targets/x86_64-linux/include 99030
found toolkit/include "CUDA_HOME=$work/toolkit" "VIRTUAL_ENV=$work/newer"
found newer/$python/cu13/include "CONDA_PREFIX=$work/conda" "VIRTUAL_ENV=$work/newer"
found newest/targets/x86_64-linux/include "CONDA_PREFIX=$work/newest" "VIRTUAL_ENV=$work/newer"
headers old 98990
found none "CUDA_HOME=$work/old"
rm "$work/plain/cudaTypedefs.h"
found none "CUDA_HOME=$work/plain"
