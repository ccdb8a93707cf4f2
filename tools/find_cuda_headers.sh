#!/usr/bin/env bash
# Prints the folder that holds the newest CUDA driver API headers here (cuda.h and cudaTypedefs.h), whoever brought them:
# a toolkit, Debian's nvidia-cuda-dev, pip or conda. CUDA_HOME and CUDA_PATH come before what is found. Exit 1: none.
set -u
oldest=${1:-11080}

# version FOLDER: its CUDA_VERSION; nothing where it has no headers.
version() {
  if [ -e "$1/cudaTypedefs.h" ] && [ -e "$1/cuda.h" ]; then
    sed -n 's/^#define CUDA_VERSION  *\([0-9][0-9]*\).*/\1/p' "$1/cuda.h" 2>/dev/null | head -n 1
  fi
}

newest=0 newest_folder=
# look FOLDER...: remembers the newest.
look() {
  local folder found
  for folder in "$@"; do
    found=$(version "$folder")
    if [ "${found:-0}" -ge "$oldest" ] && [ "$found" -gt "$newest" ]; then
      newest=$found newest_folder=$folder
    fi
  done
}
finish_if_found() {
  if [ "$newest" -gt 0 ]; then
    echo "$newest_folder"
    exit 0
  fi
}

for home in "${CUDA_HOME:-}" "${CUDA_PATH:-}"; do
  [ -n "$home" ] && look "$home/include" "$home"/targets/*-linux/include "$home"
  finish_if_found
done
look /usr/local/cuda*/include /usr/local/cuda*/targets/*-linux/include /opt/cuda/include \
  /usr/include /usr/lib/cuda/include
finish_if_found
for home in "${CONDA_PREFIX:-}" "${VIRTUAL_ENV:-}"; do
  [ -n "$home" ] && look "$home"/targets/*-linux/include "$home/include" \
    "$home"/lib/python3*/site-packages/nvidia/*/include
done
if command -v python3 >/dev/null; then
  while IFS= read -r folder; do
    look "$folder"/nvidia/*/include
  done < <(python3 -c 'import site, sys; print(*dict.fromkeys(sys.path + site.getsitepackages() + [site.getusersitepackages()]), sep="\n")' 2>/dev/null)
fi
look "$HOME"/.local/lib/python3*/site-packages/nvidia/*/include "$HOME"/*conda*/targets/*-linux/include \
  /opt/*conda*/targets/*-linux/include
finish_if_found
exit 1
