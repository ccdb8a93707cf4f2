#!/usr/bin/env python3
"""What the log says of ggml's pool (ggml_pool.cc), against the pool's own members.

usage: ggml_pool.py GPUPEAK LOG TRUTH
"""
import json
import subprocess
import sys

gpupeak, log, truth = sys.argv[1:4]
truth = [line.split() for line in open(truth)]
view = json.loads(subprocess.run([gpupeak, "pools", log, "--at", "last", "--json"], check=True, capture_output=True, text=True).stdout)
pool, = view["pools"]
assert pool["name"] == "ggml CUDA pool" and pool["device"] == 0, pool["name"]
marks = {mark["name"]: mark["pools"] for mark in view["marks"]}
wrong = 0
for _, name, used, size in (line for line in truth if line[0] == "mark"):
    found, = marks[name]
    wrong += (found["in_use_bytes"], found["reserved_bytes"]) != (int(used), int(size))
same = sorted((b["address"], b["bytes"]) for b in pool["blocks"]) == sorted((int(t[1]), int(t[2])) for t in truth if t[0] == "block")
steps = sum(line[0] == "mark" for line in truth)
print(f"ggml's pool: {steps - wrong} of {steps} steps equal to its members in use and reserved; blocks {'the same' if same else 'DIFFER'}; "
      f"peak {pool['peak']['in_use_bytes']:,} = {max(int(t[2]) for t in truth if t[0] == 'mark'):,}; {pool['alloc_count']} blocks, "
      f"{pool['contradictions']} contradictions")
sys.exit(wrong > 0 or not same)
