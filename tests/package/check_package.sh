#!/usr/bin/env bash
# An installed folder runs wherever it is put, and so does what the .deb holds.
# usage: check_package.sh BUILD_FOLDER
set -euo pipefail
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check FOLDER: the command finds its libraries, its preload and libunwind there.
check() {
  local folder=$1 code=0 libraries report
  libraries=$(ldd "$folder/bin/gpupeak")
  if grep 'not found' <<<"$libraries"; then return 1; fi
  grep -q "$folder/.*libdw" <<<"$libraries" || { echo "libdw is not taken from the folder: $libraries"; return 1; }
  [ -e "$folder/lib/gpupeak/libunwind.so.8" ] || { echo "no libunwind beside the library"; return 1; }
  "$folder/bin/gpupeak" run -o "$work/a.gplog" -- /bin/sh -c 'echo out; exit 7' >"$work/out" 2>"$work/err" || code=$?
  [ $code -eq 7 ] || { echo "exit code $code"; cat "$work/err"; return 1; }
  [ "$(cat "$work/out")" = out ] || { echo "stdout: $(cat "$work/out")"; return 1; }
  grep -q 'Peak host heap: ' "$work/err" || { echo "no summary: $(cat "$work/err")"; return 1; }
  report=$("$folder/bin/gpupeak" report --json "$work/a.gplog")
  grep -q '"exact": *true' <<<"$report" || { echo "not exact: $report"; return 1; }
  # GP020 and GP021 are the warnings; allocations of its loading may name it as well
  if grep -E 'GP02[01]' <<<"$report"; then echo "libunwind was not found"; return 1; fi
  printf '#include <gpupeak/gpupeak.h>\nint main(void) { gpupeak_phase_push("a"); return 0; }\n' >"$work/a.c"
  cc -I"$folder/include" -o "$work/a" "$work/a.c" && "$work/a"
  rm -f "$work/a.gplog"
}

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved here"
ln -s "moved here" "$work/moved"
check "$work/moved"
echo "the installed folder runs after it was moved"

cmake --install "$build" --prefix "$work/gone" >/dev/null
xargs -d '\n' rm -f <"$build/install_manifest.txt"
if find "$work/gone" ! -type d | grep .; then echo "these are not in the list of what was installed"; exit 1; fi
echo "what was installed can be removed by its list"

(cd "$work" && cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/deb" >/dev/null)
dpkg-deb -x "$work"/deb/*.deb "$work/root"
check "$work/root/usr"
dpkg-deb -I "$work"/deb/*.deb | grep -E 'Package|Version|Depends'
echo "the .deb's contents run"
