#!/usr/bin/env python3
"""PyTorch's pool as gpupeak saw it against PyTorch's own account, after every step and block by block.

usage: torch_arenas.py GPUPEAK [CASE …]      (GPUPEAK: bin/gpupeak of an installed build; no network is used)

Each case runs in a process of its own under `gpupeak run --host off`. After every step it marks the instant and notes
memory_stats(); at the end it notes torch.cuda.memory._snapshot(). Our `export torch-snapshot` is read by PyTorch's own
torch.cuda._memory_viz, and its segments and blocks are compared with those. Prints a Markdown row a case. Exit code 1
on any difference.
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

CASES = {  # name: (model, mode, allocator's settings)
    "resnet50_infer": ("resnet50", "infer", ""),
    "resnet50_train": ("resnet50", "train", ""),
    "resnet50_train_expandable": ("resnet50", "train", "expandable_segments:True"),
    "transformer_infer": ("transformer", "infer", ""),
    "transformer_train": ("transformer", "train", ""),
    "transformer_train_expandable": ("transformer", "train", "expandable_segments:True"),
    "resnet50_graph": ("resnet50", "graph", ""),
    "threads": ("mlp", "threads", ""),
    "empty_cache": ("transformer", "empty_cache", ""),
    "out_of_memory": ("mlp", "oom", ""),
    "resnet50_compiled": ("resnet50", "compiled", ""),
    "huggingface_train": ("gpt2", "train", ""),
    "huggingface_generate": ("gpt2", "generate", ""),
    "two_devices": ("mlp", "devices", ""),
    "split_size": ("transformer", "train", "max_split_size_mb:64,garbage_collection_threshold:0.6"),
}
STEPS = 4


# ---- the measured program ---------------------------------------------------------------------------------------------
def client(model_name, mode, out_path):
    import copy
    import threading
    import torch

    try:
        api_mark = ctypes.CDLL(None).gpupeak_api_mark
        api_mark.argtypes = [ctypes.c_char_p]
    except AttributeError:
        def api_mark(_name):
            pass
    out = {"marks": [], "torch": torch.__version__, "device": torch.cuda.get_device_name(0)}
    seconds = []

    def note(name):
        stats = torch.cuda.memory_stats(0)
        api_mark(name.encode())
        others = [torch.cuda.memory_stats(i) for i in range(1, torch.cuda.device_count())] if mode == "devices" else []
        out["marks"].append({"name": name, "in_use": stats.get("allocated_bytes.all.current", 0),
                             "reserved": stats.get("reserved_bytes.all.current", 0),
                             "others": [[o.get("allocated_bytes.all.current", 0), o.get("reserved_bytes.all.current", 0),
                                         o.get("allocated_bytes.all.peak", 0)] for o in others]})

    torch.manual_seed(0)
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    if model_name == "resnet50":
        try:
            import torchvision
            model = torchvision.models.resnet50(weights=None).cuda()
        except ImportError:
            model = torch.nn.Sequential(*[torch.nn.Conv2d(3 if i == 0 else 64, 64, 3, padding=1) for i in range(8)],
                                        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                                        torch.nn.Linear(64, 1000)).cuda()
        batch = lambda: torch.randn(8 if mode == "train" else 2, 3, 224, 224, device="cuda")
        loss_of = lambda y: torch.nn.functional.cross_entropy(
            y, torch.zeros(y.shape[0], dtype=torch.long, device="cuda"))
    elif model_name == "transformer":
        layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 6).cuda()
        batch = lambda: torch.randn(4, 256, 512, device="cuda")
        loss_of = lambda y: y.float().pow(2).mean()
    elif model_name == "gpt2":  # as Hugging Face builds it; random weights, since no network is used
        from transformers import GPT2Config, GPT2LMHeadModel
        model = GPT2LMHeadModel(GPT2Config(n_layer=6)).cuda()
        batch = lambda: torch.randint(0, 50257, (4, 256), device="cuda")
        loss_of = lambda y: torch.nn.functional.cross_entropy(y.logits.flatten(0, 1), batch().flatten())
    else:
        model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)]).cuda()
        batch = lambda: torch.randn(64, 1024, device="cuda")
        loss_of = lambda y: y.pow(2).mean()
    note("built")

    def train_step(optimizer):
        optimizer.zero_grad()
        loss_of(model(batch())).backward()
        optimizer.step()

    kept = []
    if mode in ("train", "compiled", "empty_cache"):
        if mode == "compiled":
            model = torch.compile(model)
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(STEPS):
            begun = time.perf_counter()
            train_step(optimizer)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begun)
            note(f"step{step}")
            if mode == "empty_cache":
                torch.cuda.empty_cache()
                note(f"emptied{step}")
    elif mode == "infer":
        model.eval()
        with torch.no_grad():
            for step in range(STEPS):
                begun = time.perf_counter()
                kept.append(model(batch()))
                torch.cuda.synchronize()
                seconds.append(time.perf_counter() - begun)
                note(f"step{step}")
    elif mode == "generate":
        model.eval()
        for step in range(STEPS):
            kept.append(model.generate(batch()[:, :32], max_new_tokens=32, do_sample=False))
            torch.cuda.synchronize()
            note(f"step{step}")
    elif mode == "devices":
        def train_on(device):
            own = copy.deepcopy(model).to(device)
            optimizer = torch.optim.Adam(own.parameters())
            for _ in range(20):
                optimizer.zero_grad()
                own(torch.randn(64 + 8 * device, 1024, device=device)).pow(2).mean().backward()
                optimizer.step()
            torch.cuda.synchronize(device)
            kept.append((own, optimizer))
        for step in range(STEPS):
            threads = [threading.Thread(target=train_on, args=(device,)) for device in range(torch.cuda.device_count())]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            note(f"step{step}")
    elif mode == "graph":
        model.eval()
        with torch.no_grad():
            static = batch()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    model(static)
            torch.cuda.current_stream().wait_stream(side)
            note("warm")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                kept.append(model(static))
            note("captured")
            for step in range(STEPS):
                graph.replay()
                torch.cuda.synchronize()
                note(f"step{step}")
            kept.append(graph)
    elif mode == "threads":
        def work(seed):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for i in range(200):
                    a = torch.randn(64 + (seed * 37 + i * 13) % 512, 1024, device="cuda")
                    b = model(a)
                    del a
                    if i % 50 == seed:
                        kept.append(b)
            stream.synchronize()
        for step in range(STEPS):
            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            torch.cuda.synchronize()
            note(f"step{step}")
    elif mode == "oom":
        failed = 0
        total = torch.cuda.get_device_properties(0).total_memory
        for step in range(STEPS):
            try:
                kept.append(torch.empty(2 * total, dtype=torch.uint8, device="cuda"))
            except torch.cuda.OutOfMemoryError:
                failed += 1
            note(f"step{step}")
        out["failed"] = failed
    torch.cuda.synchronize()
    note("last")
    stats = torch.cuda.memory_stats(0)
    out.update(max_allocated=torch.cuda.max_memory_allocated(0), max_reserved=torch.cuda.max_memory_reserved(0),
               alloc_count=stats.get("allocation.all.allocated", 0), seconds=seconds)
    blocks, segments = [], []
    for segment in torch.cuda.memory._snapshot(0)["segments"]:
        if segment["device"] != 0:
            continue
        at = segment["address"]
        segments.append([at, segment["total_size"]])
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                python = [f for f in block.get("frames", []) if f["filename"].endswith(".py")]
                blocks.append([block.get("address", at), block["size"],
                               [[f["filename"], f["line"]] for f in python]])
            at += block["size"]
    out["blocks"], out["segments"] = blocks, segments
    with open(out_path, "w") as file:
        json.dump(out, file)
    os._exit(0)  # what the interpreter frees at its end would be missing in our snapshot, which is of the log's end


# ---- our snapshot, by PyTorch's own reader ------------------------------------------------------------------------------
def visualize(pickled):
    """Prints what torch.cuda._memory_viz finds in it; its own assertions must hold."""
    import pickle
    from torch.cuda import _memory_viz as viz

    snapshot = pickle.load(open(pickled, "rb"))
    segments = [s for s in snapshot["segments"] if s["device"] == 0]
    flames = {name: getattr(viz, name)(snapshot, format_flamegraph=lambda lines: lines) for name in ("memory", "segments")}
    json.dump({"summary": viz.segsum(snapshot).splitlines(), "trace": len(viz.trace(snapshot).splitlines()),
               "page": len(viz.trace_plot(snapshot)) + len(viz.segment_plot(snapshot)),
               "flame_bytes": {name: sum(int(line.rsplit(" ", 1)[1]) for line in lines.splitlines())
                               for name, lines in flames.items()},
               "segments": [[s["address"], s["total_size"]] for s in segments],
               "all_bytes": sum(s["total_size"] for s in snapshot["segments"]),
               "allocated": sum(s["allocated_size"] for s in segments),
               "blocks": [[b["address"], b["size"]] for s in segments for b in s["blocks"]
                          if b["state"] == "active_allocated"]}, sys.stdout)


def joined(segments):
    """Ranges without the borders between those side by side: expandable segments have them elsewhere."""
    ranges = []
    for at, size in sorted(map(tuple, segments)):
        if ranges and sum(ranges[-1]) == at:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + size)
        else:
            ranges.append((at, size))
    return ranges


def compare_snapshot(gpupeak, log, told, pool):
    pickled = log + ".pickle"
    done = subprocess.run([gpupeak, "export", "torch-snapshot", log, "-o", pickled], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"export torch-snapshot: {done.stderr.strip()[:160]}"]
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--visualize", pickled], capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        return [f"_memory_viz: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}"]
    ours = json.loads(done.stdout)
    problems = []
    # Device memory beside the pool's (a library's own workspace) is a segment with one block in ours.
    pools = {tuple(s) for s in joined(told["segments"])}
    mine = joined(ours["segments"])
    missing = [s for s in pools if not any(at <= s[0] and s[0] + s[1] <= at + size for at, size in mine)]
    if missing:
        problems.append(f"snapshot: {len(missing)} of {len(pools)} segments of PyTorch's are not ours: {missing[:2]} in {mine[:3]}")
    beside = sum(size for _, size in ours["segments"]) - pool["reserved_bytes"]
    if beside < 0 or ours["allocated"] - pool["in_use_bytes"] != beside:
        problems.append(f"snapshot: {beside} bytes beside the pool, allocated {ours['allocated']}, in use {pool['in_use_bytes']}")
    if not {(b[0], b[1]) for b in told["blocks"]} <= {tuple(b) for b in ours["blocks"]}:
        problems.append("snapshot: not all of PyTorch's blocks")
    for name, total in ours["flame_bytes"].items():
        if total != ours["all_bytes"]:
            problems.append(f"_memory_viz.{name}: {total} bytes")
    if ours["trace"] < 2 or ours["page"] < 1000 or not any("total_reserved" in line for line in ours["summary"]):
        problems.append(f"_memory_viz says little: {ours['trace']} lines, {ours['page']} bytes of page")
    return problems


# ---- what both say ----------------------------------------------------------------------------------------------------
def pool_of(pools, device=0):
    return next((p for p in pools if p["name"] == "PyTorch" and p.get("device") == device), None)


def compare_others(ours, told):
    """The further devices: levels after each step, and their peaks."""
    problems = []
    for mine, theirs in zip(ours["marks"], told["marks"]):
        for device, (in_use, reserved, _) in enumerate(theirs["others"], 1):
            level = pool_of(mine["pools"], device) or {"in_use_bytes": 0, "reserved_bytes": 0}
            if (level["in_use_bytes"], level["reserved_bytes"]) != (in_use, reserved):
                problems.append(f"{theirs['name']}: device {device}: in use {level['in_use_bytes']} not {in_use}, reserved "
                                f"{level['reserved_bytes']} not {reserved}")
    for device, (_, _, most) in enumerate(told["marks"][-1]["others"], 1):
        pool = pool_of(ours["pools"], device)
        if pool is None or pool["peak"]["in_use_bytes"] != most or pool["contradictions"]:
            problems.append(f"device {device}: {pool and pool['peak']} and {pool and pool['contradictions']}, not {most}")
    return problems


def compare(gpupeak, name, folder):
    model, mode, settings = CASES[name]
    log, out_path = os.path.join(folder, name + ".gplog"), os.path.join(folder, name + ".json")
    environment = dict(os.environ, GPUPEAK_SUMMARY="off")
    if settings:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = environment["PYTORCH_ALLOC_CONF"] = settings
    run = subprocess.run([gpupeak, "run", "--host", "off", "-o", log, "--", sys.executable, os.path.abspath(__file__),
                          "--client", model, mode, out_path], env=environment, capture_output=True, text=True,
                         timeout=300)
    if run.returncode != 0:
        return [f"exit code {run.returncode}: {(run.stderr.strip().splitlines() or ['?'])[-1][:160]}"], {}
    told = json.load(open(out_path))
    view = subprocess.run([gpupeak, "pools", log, "--at", "last", "--json"], capture_output=True, text=True)
    if view.returncode != 0:
        return [f"gpupeak arenas: {view.stderr.strip()[:160]}"], told
    ours = json.loads(view.stdout)
    problems = []
    ours_marks = [m for m in ours["marks"]]
    if len(ours_marks) != len(told["marks"]):
        problems.append(f"{len(ours_marks)} marks, not {len(told['marks'])}")
    equal_steps = 0
    for mine, theirs in zip(ours_marks, told["marks"]):
        level = pool_of(mine["pools"]) or {"in_use_bytes": 0, "reserved_bytes": 0}
        if (level["in_use_bytes"], level["reserved_bytes"]) == (theirs["in_use"], theirs["reserved"]):
            equal_steps += 1
        elif len(problems) < 6:
            problems.append(f"{theirs['name']}: in use {level['in_use_bytes']} not {theirs['in_use']}, reserved "
                            f"{level['reserved_bytes']} not {theirs['reserved']}")
    problems += compare_others(ours, told)
    pool = pool_of(ours["pools"])
    if pool is None:
        return problems + ["no pool"], told
    for what, mine, theirs in (("peak in use", pool["peak"]["in_use_bytes"], told["max_allocated"]),
                               ("peak reserved", pool["reserved_peak_bytes"], told["max_reserved"]),
                               ("blocks given", pool["alloc_count"], told["alloc_count"]),
                               ("contradictions", pool["contradictions"], 0),
                               ("refused", pool["failed_count"], told.get("failed", 0))):
        if mine != theirs:
            problems.append(f"{what}: {mine} not {theirs}")
    if sum(b["bytes"] for b in pool["blocks"]) != pool["in_use_bytes"]:
        problems.append("blocks do not add up to what is in use")
    if pool["in_use_bytes"] + pool["idle_bytes"] != pool["reserved_bytes"]:
        problems.append("in use + idle is not reserved")
    mine = {(b["address"], b["bytes"]): b for b in pool["blocks"]}
    theirs = {(b[0], b[1]): b[2] for b in told["blocks"]}
    only_mine, only_theirs = set(mine) - set(theirs), set(theirs) - set(mine)
    if only_mine or only_theirs:
        problems.append(f"blocks: {len(only_mine)} only ours, {len(only_theirs)} only PyTorch's")
    problems += compare_snapshot(gpupeak, log, told, pool)
    lines = other_lines = no_line = 0
    examples = []
    for key in set(mine) & set(theirs):
        my_lines = [(f["file"], f["line"]) for f in mine[key].get("python", [])]
        their_lines = [tuple(f) for f in theirs[key]]
        if not their_lines:
            no_line += 1
        elif my_lines and my_lines[0] == their_lines[0]:
            lines += 1
        else:
            other_lines += 1
            if len(examples) < 2:
                examples.append(f"ours {my_lines[:2]} theirs {their_lines[:2]}")
    if other_lines:
        problems.append(f"Python line differs in {other_lines} blocks: {'; '.join(examples)}")
    told.update(equal_steps=equal_steps, block_count=len(mine), lines=lines, no_line=no_line, pool=pool)
    return problems, told


def main():
    gpupeak, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(CASES)
    failures = 0
    print("| case | steps equal | blocks equal | Python lines equal | peak in use | peak reserved | checks | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.environ.get("OUT") or temporary
        for name in names:
            try:
                problems, told = compare(gpupeak, name, folder)
            except (subprocess.TimeoutExpired, json.JSONDecodeError, OSError) as error:
                problems, told = [str(error)[:160]], {}
            pool = told.get("pool", {})
            print(f"| {name} | {told.get('equal_steps', 0)} of {len(told.get('marks', []))} | {told.get('block_count', 0)} "
                  f"| {told.get('lines', 0)} (of {told.get('no_line', 0)} PyTorch has none) "
                  f"| {told.get('max_allocated', 0):,} | {told.get('max_reserved', 0):,} | {pool.get('checks', 0):,} "
                  f"| {'equal' if not problems else '**DIFFERS**'} |", flush=True)
            for problem in problems:
                print(f"|   | {problem} |")
            failures += bool(problems)
            if told.get("torch") and name == names[0]:
                print(f"<!-- PyTorch {told['torch']}, {told['device']} -->")
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client(*sys.argv[2:5])
    elif sys.argv[1:2] == ["--visualize"]:
        visualize(sys.argv[2])
    else:
        sys.exit(main())
