#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks. Debian and Ubuntu; does nothing twice.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config binutils libunwind-dev libdw-dev libelf-dev libfmt-dev libspdlog-dev
  libcli11-dev libzstd-dev libmd-dev clang libclang-rt-dev nlohmann-json3-dev libtomlplusplus-dev catch2 libjemalloc-dev libbenchmark-dev python3 python3-jsonschema python3-pytest python3-yaml heaptrack sqlite3
  libsqlite3-dev zlib1g-dev libprotozero-dev protobuf-compiler golang-github-google-pprof-dev valgrind
  librsvg2-bin libdevel-nytprof-perl)
command -v npm >/dev/null || packages+=(nodejs npm)  # many machines have newer ones of their own
command -v chromium >/dev/null || packages+=(chromium)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" = "ii " ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "bootstrap: not root and no sudo; install: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  echo "bootstrap: installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq || echo "bootstrap: apt-get update failed, going on with the lists at hand" >&2
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/tmp/gpupeak-bootstrap.log 2>&1; then
    tail -20 /tmp/gpupeak-bootstrap.log >&2
    echo "bootstrap: apt-get could not install: ${missing[*]}" >&2
    exit 1
  fi
fi

# The packages that the page of `report --html` is made of, in the build folder. Without them all else is built.
page=$(cd "$(dirname "$0")/.." && pwd)/build/page
source=$(dirname "$0")/../collector/page
if ! cmp -s "$source/package-lock.json" "$page/installed.json"; then
  mkdir -p "$page"
  cp "$source/package.json" "$source/package-lock.json" "$page"
  echo "bootstrap: npm ci in $page" >&2
  if (cd "$page" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1); then
    cp "$source/package-lock.json" "$page/installed.json"
  else
    tail -5 "$page/npm.log" >&2
    echo "bootstrap: npm could not fetch the page's packages; gpupeak is built without report --html" >&2
  fi
fi

for folder in "${CUDA_HOME:-}/include" /usr/local/cuda/include /usr/include /usr/lib/cuda/include; do
  [ -e "$folder/cudaTypedefs.h" ] && exit 0
done
echo "bootstrap: no CUDA headers; install a CUDA toolkit (12.0 or newer), or point" \
  "-DGPUPEAK_CUDA_INCLUDE_DIR at a folder that holds cuda.h and cudaTypedefs.h" >&2
exit 1
