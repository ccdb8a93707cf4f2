#!/usr/bin/env python3
"""What of ONNX Runtime's arena on a GPU has the name of an operator or an initializer, and whether the names are right.

usage: ort_names.py GPUPEAK ONNXRUNTIME_FOLDER [MODEL …]      (no network is used)

GPUPEAK: bin/gpupeak of an installed build. ONNXRUNTIME_FOLDER: onnxruntime_perf_test, its libraries with the CUDA
provider's, models/. Each model runs once with -e cuda, all of the folder unless some are named. The arena's blocks at its
peak are taken one by one. The truth is the .onnx, read here: a block that bears an initializer's name must be as large as
that one is, or as one of those it may be. What a run asks for in one piece, for all its activations, is told apart: planned
(an operator's activation lies there), between these, and what the arena gave beyond what was asked for.
Prints a Markdown row a model, and the names that say neither. Exit code 1 where a name is wrong, or of what is in use at the
peak, or of a session's own memory, less than 95 % has a name.
"""
import collections
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

FLOAT, INT64 = 1, 7
BYTES = {FLOAT: 4, 2: 1, 3: 1, 6: 4, INT64: 8, 9: 1, 10: 2, 11: 8}
STEP, MOST_LEFT = 256, 128 << 20
PIECE = ("planned activation", "between planned activations", "given beyond planned activations")
NAMED = re.compile(r"^initializer (.+?)(?:, one of (\d+))?(?: of .*)?$")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = (8, at) if key & 7 == 1 else (4, at) if key & 7 == 5 else varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def numbers(value):
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def tensor(data):
    found = {"dims": [], "type": 0, "name": "", "values": []}
    for key, value in fields(data):
        if key == 1:
            found["dims"] += numbers(value)
        elif key == 2:
            found["type"] = value
        elif key == 7:
            found["values"] += numbers(value)
        elif key == 8:
            found["name"] = value.decode()
        elif key == 9 and len(value) < 1024:
            found["raw"] = value
    if found["type"] == INT64 and "raw" in found:
        found["values"] = list(struct.unpack(f"<{len(found['raw']) // 8}q", found["raw"]))
    return found


def size_of(dims, kind):
    size = BYTES[kind]
    for dim in dims:
        size *= dim
    return size


def constants_of(path):
    """Bytes of each constant tensor of the model, by name."""
    with open(path, "rb") as file:
        graph = next(value for key, value in fields(file.read()) if key == 7)
    tensors = {t["name"]: t for t in (tensor(value) for key, value in fields(graph) if key == 5)}
    sizes = {name: size_of(t["dims"], t["type"]) for name, t in tensors.items()}
    for node in (value for key, value in fields(graph) if key == 1):
        parts = collections.defaultdict(list)
        for key, value in fields(node):
            parts[key].append(value)
        operation = parts[4][0].decode()
        attributes = [tensor(value) for a in parts[5] for key, value in fields(a) if key == 5]
        if operation == "ConstantOfShape" and parts[1][0].decode() in tensors:
            kind = attributes[0]["type"] if attributes else FLOAT
            sizes[parts[2][0].decode()] = size_of(tensors[parts[1][0].decode()]["values"], kind)
        elif operation == "Constant" and attributes:
            sizes[parts[2][0].decode()] = size_of(attributes[0]["dims"], attributes[0]["type"])
    return sizes


def may_be(block, size):
    rounded = -(-size // STEP) * STEP
    return size > 0 and 0 <= block - rounded < min(rounded, MOST_LEFT)


def names_of(site, sizes):
    """The initializers that the site may be; None: it names no initializer."""
    found = NAMED.match(site.split(" ← ")[0])
    if not found:
        return None
    text, count = found.group(1), int(found.group(2) or 0)
    if count:
        first, last = text.split(" … ")
        equal = [name for name in sizes if sizes[name] == sizes.get(first)]
        return [first, last] + equal
    return text.split(" or ")


def measure(gpupeak, folder, work, model):
    path = os.path.join(folder, f"models/light_{model}.onnx")
    log = os.path.join(work, f"names_{model}.gplog")
    run = subprocess.run([gpupeak, "run", "-q", "--host", "off", "-o", log, "--", os.path.join(folder, "onnxruntime_perf_test"),
                          "-e", "cuda", "-r", "20", "-I", "-m", "times", path], capture_output=True, text=True, timeout=200)
    if run.returncode != 0:
        return [f"exit code {run.returncode}: {(run.stderr.strip().splitlines() or ['?'])[-1][:160]}"], {}
    sizes = constants_of(path)
    problems, told = [], {}
    for moment in ("peak", "create_session.end"):
        view = subprocess.run([gpupeak, "arenas", log, "--at", moment, "--json"], capture_output=True, text=True)
        if view.returncode != 0:
            return [f"arenas --at {moment}: {view.stderr.strip()[:160]}"], {}
        pools = [p for p in json.loads(view.stdout)["pools"]
                 if p["name"].startswith("ONNX Runtime") and p.get("device") == 0]
        shares, others = collections.Counter(), collections.Counter()
        for block in (b for p in pools for b in p["blocks"] or []):
            site, size = block["site"], block["bytes"]
            names = names_of(site, sizes)
            if names is not None:
                shares["initializer"] += size
                wrong = [n for n in names if n not in sizes or not may_be(size, sizes[n])]
                if wrong:
                    problems.append(f"{size} bytes are not {wrong[:3]}: {site[:100]}")
            elif site.startswith(PIECE):
                shares[site.split(" ← ")[0]] += size
            elif re.search(r"::(ComputeInternal|Compute|PrePack)\b", site):
                shares["operator"] += size
            elif site.startswith("OrtApis::Run"):
                shares["run"] += size
            else:
                shares["other"] += size
                others[site] += size
        told[moment] = (shares, others)
    told["distinct"] = sum(set(sizes.values()))
    told["all"] = sum(sizes.values())
    return problems, told


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "–"


def main():
    gpupeak, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    failures = 0
    models = sys.argv[3:] or sorted(os.path.basename(path)[len("light_"):-len(".onnx")]
                                    for path in glob.glob(os.path.join(folder, "models/light_*.onnx")))
    print("| model | in the model: all, one of each size | session: in use | with a name | peak: in use | initializer | operator "
          "| planned | between | beyond | the run's own | other | with a name | without the plan | verdict |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        work = os.environ.get("OUT") or temporary
        for model in models:
            try:
                problems, told = measure(gpupeak, folder, work, model)
            except (subprocess.TimeoutExpired, json.JSONDecodeError, OSError, KeyError) as error:
                problems, told = [f"{type(error).__name__}: {error}"[:160]], {}
            if told:
                session, session_others = told["create_session.end"]
                peak, others = told["peak"]
                at_session, at_peak = sum(session.values()), sum(peak.values())
                named = session["initializer"] + session["operator"]
                if named < 0.95 * at_session:
                    problems.append(f"of the session's memory {share(named, at_session)} has a name")
                before = peak["initializer"] + peak["operator"]
                now = before + sum(peak[part] for part in PIECE)
                if now < 0.95 * at_peak:
                    problems.append(f"of the memory at the peak {share(now, at_peak)} has a name")
                print(f"| {model} | {told['all']:,}, {told['distinct']:,} | {at_session:,} | {share(named, at_session)} "
                      f"| {at_peak:,} | {share(peak['initializer'], at_peak)} | {share(peak['operator'], at_peak)} "
                      f"| {' | '.join(share(peak[part], at_peak) for part in PIECE)} "
                      f"| {share(peak['run'], at_peak)} | {share(peak['other'], at_peak)} "
                      f"| {share(now, at_peak)} | {share(before, at_peak)} "
                      f"| {'named' if not problems else '**NOT NAMED**'} |", flush=True)
                for site, size in (session_others + others).most_common(4):
                    print(f"|   | {size:,} {site[:150]} |", flush=True)
            else:
                print(f"| {model} {'| ' * 13}| **FAILED** |", flush=True)
            for problem in problems[:6]:
                print(f"|   | {problem} |", flush=True)
            failures += bool(problems)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
