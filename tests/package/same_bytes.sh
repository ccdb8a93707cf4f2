#!/usr/bin/env bash
# Builds tools/portable.sh's files once more, from a copy of these sources in another folder, and compares
# them byte by byte with those that are there.
# usage: same_bytes.sh PORTABLE_FOLDER [-DNAME=VALUE…]
set -euo pipefail
portable=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/elsewhere"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf - | tar -C "$work/elsewhere" -xf -
"$work/elsewhere/tools/portable.sh" "$work/out" "$@" >/dev/null
failed=0
for file in "$portable"/gpupeak*; do
  if cmp "$file" "$work/out/$(basename "$file")"; then echo "same: $(basename "$file"), $(stat -c %s "$file") bytes"; else failed=1; fi
done
exit $failed
