#!/usr/bin/env bash
# What it costs to know which memory is used: `run --last-use` beside compute-sanitizer's --track-unused-memory, which
# instruments each kernel. Seconds from prompt to prompt of an eager ResNet-50's inferences.
#   tests/gpu/sanitizer_cost.sh PREFIX
# ROUNDS (2): of each way, by turns. STEPS (20). SECONDS_MOST (120): a run that takes longer is ended, and said so.
# Prints a Markdown table. Exit code 2: there is no compute-sanitizer, or no PyTorch.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
gpupeak=$(cd "${1:?usage: sanitizer_cost.sh PREFIX}" && pwd)/bin/gpupeak
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer) || exit 2
python3 -c 'import torch, torchvision' || exit 2
program=(env PYTHONPATH="$here" STEPS="${STEPS:-20}" python3 -c '
import os, torch
from torch_resnet50 import steps
step = steps()["infer"]
for _ in range(int(os.environ["STEPS"])):
    step()
torch.cuda.synchronize()')

# one NAME COMMAND…: its name, and milliseconds, "more" or "failed".
one() {
  local name=$1 begun
  shift
  begun=$(date +%s%N)
  timeout "${SECONDS_MOST:-120}" "$@" >/dev/null 2>&1
  case $? in
    0) echo "$name $((($(date +%s%N) - begun) / 1000000))" ;;
    124) echo "$name more" ;;
    *) echo "$name failed" ;;
  esac
}
for _ in $(seq "${ROUNDS:-2}"); do
  one alone "${program[@]}"
  one gpupeak "$gpupeak" run -q -o "$work/x.gplog" --last-use -- "${program[@]}"
  one sanitizer "$sanitizer" --tool initcheck --track-unused-memory --log-file "$work/said" "${program[@]}"
done | python3 -c '
import collections, os, statistics, sys
most = float(os.environ.get("SECONDS_MOST", "120"))
seconds, failed = collections.defaultdict(list), set()
for name, ms in map(str.split, sys.stdin):
    if ms == "failed":
        failed.add(name)
    seconds[name].append(most if ms in ("more", "failed") else float(ms) / 1000)
alone = statistics.median(seconds["alone"])
print("| way | seconds, median (least to most) | of the program alone |\n|---|---|---|")
for name, title in (("alone", "alone"), ("gpupeak", "gpupeak run --last-use"), ("sanitizer", "compute-sanitizer --track-unused-memory")):
    median = statistics.median(seconds[name])
    more = "more than " if median == most else ""
    row = f"{more}{median:.1f} ({min(seconds[name]):.1f} to {max(seconds[name]):.1f}) | {more}{median / alone:.2f}×"
    print(f"| {title} | " + ("failed |" if name in failed else row) + " |")'
