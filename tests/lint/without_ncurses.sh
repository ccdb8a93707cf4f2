#!/usr/bin/env bash
# What uses the screen must compile where ncurses is missing, and leave nothing of the screen to the linker.
# usage: without_ncurses.sh SOURCE COMPILER
set -euo pipefail
object=$(mktemp)
trap 'rm -f "$object"' EXIT
for file in top/command_top.cc views/command_view.cc; do
  "$2" -std=c++20 -I"$1" -I"$1/preload/include" -c "$1/tools/$file" -o "$object"
  if nm -uC "$object" | grep TopScreen; then
    echo "$file uses a screen that only a build with ncurses has" >&2
    exit 1
  fi
done
