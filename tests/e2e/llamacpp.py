#!/usr/bin/env python3
"""llama.cpp as node-llama-cpp ships it: the built-in rules find its phases, and its weights, KV cache and compute buffers
to the byte that llama.cpp itself states.

usage: llamacpp.py LIBGPUPEAK GPUPEAK WORK_FOLDER
Exit code 77: without node, npm or the network.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tiny_llama
from common import GPUPEAK, Skipped, environment, expect, expect_nothing_dropped, report, run_checks

WORK = sys.argv[3]
VERSION = "3.22.1"
# The package's own JavaScript is left out: it would fetch a hundred other packages.
PROGRAM = """
const [folder, path] = process.argv.slice(2);
const llama = require(folder + '/llama-addon.node');
(async () => {
  llama.setLoggerLogLevel(1);
  llama.loadBackends(folder);
  await llama.init();
  const model = new llama.AddonModel(path, {addonExports: llama, useMmap: false});
  await model.init();
  const context = new llama.AddonContext(model, {contextSize: 512, batchSize: 64, sequences: 1, threads: 1});
  await context.init();
  console.log('model', model.getMemoryBreakdown().cpuRam, 'context', context.getMemoryBreakdown().cpuRam);
  for (let i = 0; i < 3; ++i) {
    context.initBatch(5);
    context.addToBatch(0, 5 * i, Uint32Array.from([1, 5, 6, 7, 8]), Uint32Array.from([4]));
    await context.decodeBatch();
  }
})();
"""


def fetch(place):
    if not os.path.exists(os.path.join(place, "package.json")):
        with tempfile.TemporaryDirectory() as folder:
            if subprocess.run(["npm", "pack", "--silent", f"@node-llama-cpp/linux-x64@{VERSION}"], cwd=folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
                return None
            os.makedirs(place, exist_ok=True)
            subprocess.run(["tar", "xzf", os.listdir(folder)[0], "-C", place, "--strip-components", "1"], cwd=folder, check=True)
    return os.path.join(place, "bins/linux-x64")


def main():
    place = None if None in (shutil.which("node"), shutil.which("npm")) else fetch(os.path.join(WORK, f"node-llama-cpp-{VERSION}"))
    if place is None:
        raise Skipped("no node, npm or network")
    with tempfile.TemporaryDirectory() as folder:
        model, program, log = (os.path.join(folder, name) for name in ("tiny.gguf", "program.js", "a.gplog"))
        tiny_llama.write(model)
        with open(program, "w") as file:
            file.write(PROGRAM)
        done = subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", "node", program, place, model],
                              env=environment(folder, False), capture_output=True, text=True, check=False)
        expect(done.returncode == 0, f"the program gives {done.returncode}: {done.stderr}")
        of_model, of_context = map(int, re.search(r"model (\d+) context (\d+)", done.stdout).groups())
        expect_nothing_dropped(report(log))

        view = json.loads(subprocess.run([GPUPEAK, "tags", "--json", "--scope", "host/heap", "--top", "100000", log],
                                         stdout=subprocess.PIPE, check=True).stdout)
        expect("llamacpp" in view["rules"]["sets"], f"rules {view['rules']}")
        expect(sum(t["bytes"] for t in view["tags"]) == view["bytes"], "the tags do not add up")
        # Buffers that backends hand out. Besides these there are small objects of C++.
        buffers = {}
        for entry in view["entries"]:
            if entry["site"].startswith("ggml_aligned_malloc ← ggml_backend_cpu_buffer_type_alloc_buffer"):
                buffers[entry["tag"]] = buffers.get(entry["tag"], 0) + entry["bytes"]
        print(f"buffers {buffers}; llama.cpp says model {of_model}, context {of_context}")
        kv_cache = tiny_llama.CONTEXT * tiny_llama.EMBED * tiny_llama.LAYERS * 2 * 2  # keys and values, 16 bits each
        expect(buffers.get("weights") == of_model, "the weights are not what llama.cpp says")
        expect(buffers.get("KV cache") == kv_cache, f"the KV cache should have {kv_cache}")
        expect(kv_cache + buffers.get("compute buffers", 0) == of_context, "the context is not what llama.cpp says")
        by_tag = {t["name"]: t["bytes"] for t in view["tags"]}
        # Of llama.cpp's small blocks only a sample is recorded, which may have no block that is live at the peak.
        expect(by_tag.get("llama.cpp", 0) < by_tag["KV cache"] / 4, f"much of llama.cpp has no tag of its own: {by_tag}")

        phases = {p["name"]: p for p in json.loads(subprocess.run(
            [GPUPEAK, "report", "--json", "--rules", "llamacpp", log], stdout=subprocess.PIPE,
            check=True).stdout)["phases"] if p["source"] == "rule"}
        counts = {name: phase["count"] for name, phase in phases.items()}
        # There are three calls. Two calls of the same thread without an event between them cannot be told apart.
        decodes = counts.pop("decode", 0)
        expect(counts == {"load": 1, "context": 1} and 1 <= decodes <= 3, f"phases {counts}, decode {decodes}")
        # Each call runs on a thread of Node's pool, which is idle afterwards.
        for name, least in (("load", of_model), ("context", of_context)):
            kept = phases[name]["metrics"]["host.kept_bytes"]
            expect(least <= kept < 2 * least + 24 * 2**20, f"{name} keeps {kept}, of buffers {least}")


run_checks(main)
