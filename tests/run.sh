#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests that need no GPU. Ends with ctest's closing lines.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/bootstrap.sh
jobs=$(nproc)
cmake --preset release >/dev/null
cmake --build --preset release -j "$jobs" | tail -n 3
ctest --test-dir build/release -j "$jobs" -LE gpu --output-on-failure --no-tests=error "$@"
