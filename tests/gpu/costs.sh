#!/usr/bin/env bash
# What the preload costs on a machine with a GPU and many processors: CUDA calls, latencies, threads.
#   tests/gpu/costs.sh PREFIX [ONNXRUNTIME_FOLDER [TABLE…]]
# TABLE is threads, cost, latency, torch or shares; all of them if none is named. Prints Markdown tables: medians of alternating
# runs, of latencies with their quartiles; shares: how much of a program's own time is the library's, and in which functions.
# ROUNDS (9): of latencies. HEAPTRACK: where another libheaptrack_preload.so is than in /usr/lib/heaptrack, for shares.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "${1:?usage: tests/gpu/costs.sh PREFIX [ONNXRUNTIME_FOLDER]}" && pwd)
preload=$prefix/lib/gpupeak/libgpupeak.so
ort=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cuda_inc=$(dirname "$(find /usr/local/cuda/ -name cuda.h 2>/dev/null | head -1)")
g++ -std=c++17 -O2 -I"$cuda_inc" -o "$work/call_cost" "$here/call_cost.cc" -L/usr/local/cuda/lib64/stubs -lcuda || exit 1
g++ -std=c++20 -O2 -pthread -o "$work/malloc_pairs" "$here/../bench/malloc_pairs.cc" || exit 1

cost_table() {
  echo "| call | native ns | added by gpupeak | with --host off |"
  echo "|---|---|---|---|"
  for _ in 1 2 3 4 5; do
    "$work/call_cost" | sed 's/^/native /'
    for way in full off; do
      env GPUPEAK_HOST=$way GPUPEAK_OUT=$work/cost.gplog GPUPEAK_SUMMARY=off LD_PRELOAD=$preload "$work/call_cost" | sed "s/^/$way /"
    done
  done | python3 -c '
import collections, statistics, sys
times = collections.defaultdict(list)
for line in sys.stdin:
    way, call, ns = line.split()
    times[call, way].append(float(ns))
for call in sorted({c for c, _ in times}):
    native, full, off = (statistics.median(times[call, way]) for way in ("native", "full", "off"))
    print(f"| {call} | {native:.0f} | {full - native:+.0f} | {off - native:+.0f} |")'
}
# latency_row NAME RUNS COMMAND…: its output has the latency in ms, as onnxruntime_perf_test prints it.
latency_row() {
  local name=$1 runs=$2 way extra
  shift 2
  for _ in $(seq "$runs"); do
    for way in native empty auto full sampled off; do
      case $way in
        native) extra=() ;;
        empty) extra=(LD_PRELOAD="$work/libempty.so") ;;
        *) extra=(GPUPEAK_HOST=$way GPUPEAK_OUT="$work/lat.gplog" GPUPEAK_SUMMARY=off LD_PRELOAD="$preload") ;;
      esac
      env "${extra[@]}" "$@" 2>/dev/null |
        awk -v w=$way '/^P50 Latency/{print w, $(NF-1) * 1000}'
    done
  done | python3 -c '
import collections, statistics, sys
times = collections.defaultdict(list)
for line in sys.stdin:
    way, ms = line.split()
    times[way].append(float(ms))
cells = []
for way in ("empty", "auto", "full", "sampled", "off"):  # of the same round
    low, middle, high = statistics.quantiles([ours / native for ours, native in zip(times[way], times["native"])], n=4)
    cells.append(f"{middle:.3f}× ({low:.3f} to {high:.3f})")
native = statistics.median(times["native"])
print(f"| {sys.argv[1]} | {native:.3f} | " + " | ".join(cells) + " |")' "$name"
}
# `empty`: below a preloaded library that does nothing. What differs there is not gpupeak's.
latency_table() {
  echo 'int nothing_at_all;' | gcc -shared -fPIC -xc -o "$work/libempty.so" - || return
  echo "| P50 of an inference | native ms | an empty library | auto | full | sampled | host off |"
  echo "|---|---|---|---|---|---|---|"
  if [ -n "$ort" ]; then
    for model in vgg19 resnet50; do
      latency_row "onnxruntime_perf_test -e cuda, $model, 1,500 runs" "${ROUNDS:-9}" \
        "$ort/onnxruntime_perf_test" -e cuda -r 1500 -I -m times "$ort/models/light_$model.onnx"
    done
  fi
}
torch_table() {
  python3 -c 'import torch, torchvision' 2>/dev/null && python3 "$here/torch_cost.py" "$prefix/bin/gpupeak"
}
# share_rows AFTER WAY|WAY… COMMAND…
share_rows() {
  local after=$1 ways
  IFS='|' read -ra ways <<<"$2"
  shift 2
  python3 "$here/../bench/where.py" "$work/libsampler.so" "$preload" --after="$after" "${ways[@]/#/--way=}" "${peer[@]}" -- "$@"
}
shares_table() {
  gcc -O2 -shared -fPIC -o "$work/libsampler.so" "$here/../bench/sampler.c" || return
  local heaptrack=${HEAPTRACK:-/usr/lib/heaptrack/libheaptrack_preload.so} peer=() step model
  [ ! -e "$heaptrack" ] || peer=("--heaptrack=$heaptrack")
  if python3 -c 'import torch, torchvision' 2>/dev/null; then
    for step in infer:1500 train:350; do
      echo "PyTorch, ResNet-50, eager, ${step/:/ }"
      share_rows program "host off, pools off|host off, without Python lines|host off|counters|sampled|auto|full" \
        python3 "$here/torch_steps.py" "${step%:*}" "${step#*:}"
    done
  fi
  if [ -n "$ort" ]; then
    for model in resnet50 vgg19; do
      echo "onnxruntime_perf_test -e cuda, $model, without its first four seconds"
      share_rows 4 "host off|sampled|auto|full" "$ort/onnxruntime_perf_test" -e cuda -r 3000 -I -m times "$ort/models/light_$model.onnx"
    done
  fi
  if python3 -c 'import flax' 2>/dev/null; then
    peer=()  # heaptrack takes minutes
    echo "Flax, three training steps"
    share_rows 0 "host off|sampled|auto|full" python3 "$here/flax_train.py"
  fi
}

# Every thread allocates all the time; the figure is processor time of a pair in one of them.
threads_table() {
  local counts="1 2 4 8 16"
  echo "| ns a malloc+free pair, depth 8, threads: | ${counts// / | } |"
  echo "|---|---|---|---|---|---|"
  for _ in 1 2 3 4 5; do
    for count in $counts; do
      echo "native $count $("$work/malloc_pairs" 8 $count 500000)"
      for way in full sampled counters; do
        echo "$way $count $(env GPUPEAK_HOST=$way GPUPEAK_OUT="$work/pairs.gplog" GPUPEAK_SUMMARY=off LD_PRELOAD="$preload" \
          "$work/malloc_pairs" 8 $count 500000)"
      done
    done
  done | python3 -c '
import collections, statistics, sys
times = collections.defaultdict(list)
for line in sys.stdin:
    way, threads, ns = line.split()
    times[way, int(threads)].append(float(ns))
counts = sorted({t for _, t in times})
for way in ("native", "full", "sampled", "counters"):
    medians = [(statistics.median(times[way, t]), statistics.median(times["native", t])) for t in counts]
    cells = [f"{ns:.0f}" if way == "native" else f"{ns:.0f} ({ns - native:+.0f})" for ns, native in medians]
    print(f"| {way} | " + " | ".join(cells) + " |")'
}

echo "$(nproc) processors"
[ $# -gt 2 ] || set -- "$1" "$ort" threads cost latency torch shares
for table in "${@:3}"; do
  echo
  "${table}_table"
done
