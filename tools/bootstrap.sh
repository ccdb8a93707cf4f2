#!/usr/bin/env bash
# Installs what this machine lacks. Debian and Ubuntu; does nothing twice.
# usage: bootstrap.sh [build] [page] [tests] [portable]   (build: the command and its library, page: for report --html,
# portable: for tools/portable.sh; default: build, page, tests)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- build page tests
wants() { case " $wanted " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
wanted="$*"

# First what installing a package takes longest to find out. -DGPUPEAK_CUDA_INCLUDE_DIR is checked by cmake.
if [ -z "${GPUPEAK_HAS_CUDA_HEADERS:-}" ] && ! "$root/tools/find_cuda_headers.sh" >/dev/null; then
  echo "bootstrap: no CUDA headers. Any of these brings them (headers are enough, no GPU is needed):" \
    "a CUDA toolkit of 11.8 or newer; pip install nvidia-cuda-runtime; conda install cuda-driver-dev cuda-cudart-dev." \
    "Or set CUDA_HOME, or pass -DGPUPEAK_CUDA_INCLUDE_DIR=FOLDER with cuda.h and cudaTypedefs.h" >&2
  exit 1
fi

packages=()
if wants build; then
  packages+=(g++ cmake ninja-build libunwind8 libdw-dev libelf-dev libfmt-dev libspdlog-dev libcli11-dev libzstd-dev
    libmd-dev liblzma-dev nlohmann-json3-dev libtomlplusplus-dev libsqlite3-dev zlib1g-dev libprotozero-dev libiberty-dev libutf8proc-dev)
fi
if wants portable; then
  packages+=(binutils patchelf libbz2-dev liblzma-dev libncurses-dev python3 rpm)
fi
if wants tests; then
  packages+=(binutils dwz clang clang-tidy libclang-rt-dev catch2 libjemalloc-dev libgc-dev gdc golang-go libgoogle-perftools-dev libmimalloc-dev libtbb-dev libbenchmark-dev libunwind-dev python3
    python3-jsonschema python3-pytest python3-pytest-xdist python3-pytest-benchmark python3-ipykernel python3-nbclient hyperfine tmux python3-yaml heaptrack sqlite3 protobuf-compiler golang-github-google-pprof-dev
    btrfs-progs valgrind librsvg2-bin libdevel-nytprof-perl prometheus-cpp-dev libcurl4-openssl-dev prometheus prometheus-pushgateway libncurses-dev openmpi-bin slurm-wlm munge curl zstd iproute2 g++-aarch64-linux-gnu
    qemu-user-static redis-server nginx-light)
  command -v chromium >/dev/null || packages+=(chromium)
  # Not every release has them; their tests are skipped then.
  command -v clickhouse-server >/dev/null || wanted_if_there=(clickhouse-server clickhouse-client)
fi
if wants page || wants tests; then
  command -v npm >/dev/null || packages+=(nodejs npm)  # many machines have newer ones of their own
fi

missing=()
for package in ${packages[@]+"${packages[@]}"}; do
  [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" = "ii " ] || missing+=("$package")
done
add_those_there() {
  for package in ${wanted_if_there[@]+"${wanted_if_there[@]}"}; do
    if apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); fi
  done
}
[ ${#missing[@]} -gt 0 ] || add_those_there
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "bootstrap: packages are missing. Paste this, then start again:" >&2
    echo "sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  echo "bootstrap: installing ${#missing[@]} packages: ${missing[*]}" >&2
  log=$(mktemp)
  apt-get update -qq || echo "bootstrap: apt-get update failed, going on with the lists at hand" >&2
  add_those_there
  if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    tail -20 "$log" >&2
    echo "bootstrap: apt-get could not install: ${missing[*]} (all it said: $log)" >&2
    exit 1
  fi
  rm -f "$log"
fi

# fetch SOURCE FOLDER WITHOUT: the npm packages that SOURCE/package.json names, below FOLDER; WITHOUT says what follows without them.
fetch() {
  cmp -s "$1/package-lock.json" "$2/installed.json" && return
  mkdir -p "$2"
  cp "$1/package.json" "$1/package-lock.json" "$2"
  echo "bootstrap: npm ci in $2" >&2
  if (cd "$2" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1); then
    cp "$1/package-lock.json" "$2/installed.json"
  else
    tail -5 "$2/npm.log" >&2
    echo "bootstrap: npm could not fetch the packages of $1; $3" >&2
  fi
}
if wants page; then fetch "$root/collector/page" "$root/build/page" "gpupeak is built without report --html"; fi
if wants tests; then fetch "$root/tests/page" "$root/build/page/tests" "the page is not tested"; fi
