#!/usr/bin/env python3
"""PyTorch's pool through the stand-in libc10: what the log says against the stand-in allocator's own ledger.

usage: check_torch.py PRELOAD GPUPEAK DRIVER_FOLDER CLIENT LIBRARY [ARGUMENT …]

After every change of a pool: in use and reserved are the ledger's to the byte. At the end: the same blocks at the same
addresses. Both peaks, the count of blocks, refused requests; no contradiction with the totals that the allocator tells.
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile

for folder in ("export", "e2e"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
import readers  # noqa: E402

preload, gpupeak, driver, client, library = sys.argv[1:6]
arguments = sys.argv[6:]


def run(folder, pools):
    log, truth = os.path.join(folder, f"{pools}.gplog"), os.path.join(folder, f"{pools}.truth")
    environment = dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=driver, GPUPEAK_OUT=log, GPUPEAK_HOST="off",
                       GPUPEAK_SUMMARY="off", GPUPEAK_POOLS=pools, GPUPEAK_STAMP_ALL="1", FAKE_CUDA_DEVICES="2")
    if "small_card" in arguments:
        environment["FAKE_CUDA_MEMORY"] = "64MiB"
    subprocess.run([client, library, truth, *arguments], env=environment, check=True, timeout=100)
    view = subprocess.run([gpupeak, "pools", log, "--at", "last", "--json"], check=True, capture_output=True, text=True)
    return json.loads(view.stdout), open(truth).read().split("\n"), log


def check_snapshot(log, folder, blocks, pools):
    """PyTorch's own form: the allocator's blocks and segments in the end, and a trace that leads there. It is read as
    torch.cuda._memory_viz reads it."""
    out = os.path.join(folder, "snapshot.pickle")
    subprocess.run([gpupeak, "export", "torch-snapshot", log, "-o", out], check=True, capture_output=True)
    snapshot = pickle.load(open(out, "rb"))
    for device, trace in enumerate(snapshot["device_traces"]):
        given, reserved, refused = {}, {}, 0
        for event in trace:
            action, at = event["action"], event.get("addr")
            assert event["stream"] == 0 and event["time_us"] >= 0 and isinstance(event["frames"], list), event
            if action == "alloc":
                assert at not in given, event
                given[at] = event["size"]
            elif action == "free_completed":
                assert given.pop(at) == event["size"], event
            elif action in ("segment_alloc", "segment_map"):
                reserved[at] = event["size"]
            elif action in ("segment_free", "segment_unmap"):
                assert reserved.pop(at) == event["size"], event
            elif action == "oom":
                assert event["device_free"] >= 0, event
                refused += 1
        segments = [s for s in snapshot["segments"] if s["device"] == device]
        for segment in segments:
            readers.check_torch_segment(segment)
        active = {(b["address"], b["size"]) for s in segments for b in s["blocks"] if b["state"] == "active_allocated"}
        assert active == set(given.items()), (device, active ^ set(given.items()))
        if device not in pools:
            continue
        pool = pools[device]
        # A segment for a request that then failed has no block yet: whoever took it from the driver has it all.
        unshared = sum(s["total_size"] for s in segments) - pool["reserved_bytes"]
        assert unshared == 0 or "small_card" in arguments, (device, unshared)
        assert active >= blocks.get(device, set()) and (unshared or active == blocks.get(device, set()))
        assert sum(reserved.values()) == sum(s["total_size"] for s in segments)
        assert refused == pool["failed_count"], (refused, pool["failed_count"])
        assert {s["is_expandable"] for s in segments} <= {"expandable" in arguments}
        if active:
            names = {f["name"] for s in segments for b in s["blocks"] for f in b["frames"]}
            assert any("work" in name for name in names), names


def holes_of(pool):
    """What of the segments no block covers, found without gpupeak's own sums."""
    holes = []
    for segment in pool["segments"]:
        at, end = segment["address"], segment["address"] + segment["bytes"]
        for block in sorted((b for b in pool["blocks"] if at <= b["address"] < end), key=lambda b: b["address"]):
            holes.append(block["address"] - at)
            at = block["address"] + block["bytes"]
        holes.append(end - at)
    return [hole for hole in holes if hole]


def check_holes(pool, largest_block):
    holes = holes_of(pool)
    assert sum(holes) == pool["idle_bytes"] and max(holes, default=0) == pool["largest_idle_bytes"], (holes, pool["idle_bytes"])
    assert pool["unplaced_idle_bytes"] == 0
    if pool["alloc_count"]:
        assert pool["largest_block"]["bytes"] == largest_block, (pool["largest_block"], largest_block)
    assert (pool["largest_refused"] is not None) == (pool["failed_count"] > 0), pool["largest_refused"]
    for request in filter(None, (pool["largest_block"], pool["largest_refused"])):
        small = sum(hole for hole in holes if hole < request["bytes"])
        assert request["idle_in_smaller_bytes"] == small, (request, small)


def check_instants(log, steps, largest):
    """At any time the view shows what the ledger said last. steps: (ns, device, in use, reserved), in order."""
    texts = {}
    for at in range(len(steps) // 7, len(steps), len(steps) // 7):
        ns = steps[at][0]
        view = json.loads(run_pools(log, "--at", f"+{ns / 1e6:.6f}ms", "--json"))
        assert view["at"]["time_ns"] == ns, (view["at"], ns)
        for device in (0, 1):
            said = [step for step in steps[:at + 1] if step[1] == device]
            in_use, reserved = said[-1][2:] if said else (0, 0)
            pool = pool_of(view["pools"], device)
            if pool is None:
                assert not said
                continue
            assert (pool["in_use_bytes"], pool["reserved_bytes"]) == (in_use, reserved), (ns, device, pool["in_use_bytes"], in_use)
            assert sum(b["bytes"] for b in pool["blocks"]) == in_use
            check_holes(pool, largest[device])
        check_report(log, ns, view["pools"])
        texts[ns] = run_pools(log, "--at", f"+{ns}ns")
    assert len(set(texts.values())) == len(texts) > 5
    for pool in view["pools"]:  # an instant has its own event
        at_peak = json.loads(run_pools(log, "--at", f"+{pool['peak']['time_ns']}ns", "--json"))["pools"]
        assert pool_of(at_peak, pool["device"])["in_use_bytes"] == pool["peak"]["in_use_bytes"], pool["peak"]
    for wrong, why in (("-1s", "before the log's start"), (f"+{steps[-1][0] + 10**10}ns", "behind the log's end"), ("+5 parsecs", "no mark")):
        done = subprocess.run([gpupeak, "pools", log, f"--at={wrong}"], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and why in done.stderr and done.stdout == "", done


def check_report(log, ns, pools):
    """What a device had then, with the pools' blocks and what was idle in them as rows of its own."""
    done = subprocess.run([gpupeak, "report", log, "--at", f"+{ns}ns", "--json", "--full"], check=True, capture_output=True, text=True)
    for scope in json.loads(done.stdout)["scopes"]:
        if not scope["scope"].startswith("device:"):
            continue
        of_kind = lambda kind: sum(h["bytes"] for h in scope["holders"] if h["kind"] == kind)
        here = [pool for pool in pools if scope["scope"] == f"device:{pool['device']}"]
        assert of_kind("device.pooled") == sum(p["in_use_bytes"] for p in here), (ns, scope)
        assert of_kind("device.idle") == sum(p["reserved_bytes"] - p["in_use_bytes"] for p in here), (ns, scope)
        assert sum(h["bytes"] for h in scope["holders"]) == scope["bytes"] and scope["other_bytes"] == 0, (ns, scope)


def run_pools(*arguments):
    return subprocess.run([gpupeak, "pools", *arguments], check=True, capture_output=True, text=True).stdout


def pool_of(pools, device):
    return next((p for p in pools if p["name"] == "PyTorch" and p.get("device") == device), None)


with tempfile.TemporaryDirectory() as folder:
    ours, truth, log = run(folder, "auto")
    marks = {m["name"]: m for m in ours["marks"]}
    peaks, blocks, checked, steps, largest, last = {}, {}, 0, [], {}, {}
    for line in truth:
        field = line.split()
        if not field:
            continue
        if field[0] == "block":
            blocks.setdefault(int(field[1]), set()).add((int(field[2]), int(field[3])))
            continue
        name, device, in_use, reserved = field[1], int(field[2]), int(field[3]), int(field[4])
        level = pool_of(marks[name]["pools"], device) or {"in_use_bytes": 0, "reserved_bytes": 0}
        # Segments that were taken for a request that then failed have no block yet: nobody shares them out.
        if not ("small_card" in arguments and level["reserved_bytes"] < reserved):
            assert level["reserved_bytes"] == reserved, (line, level)
        assert level["in_use_bytes"] == in_use, (line, level)
        checked += 1
        steps.append((marks[name]["time_ns"], device, in_use, reserved))
        largest[device] = max(largest.get(device, 0), in_use - last.get(device, 0))
        last[device] = in_use
        peak = peaks.setdefault(device, [0, 0])
        peak[0], peak[1] = max(peak[0], in_use), max(peak[1], reserved)
    assert checked > 400 and len(peaks) == 2, (checked, peaks)
    for device, (in_use, reserved) in peaks.items():
        pool = pool_of(ours["pools"], device)
        assert pool["peak"]["in_use_bytes"] == in_use, (pool["peak"], in_use)
        if "small_card" not in arguments:
            assert pool["reserved_peak_bytes"] == reserved, (pool["reserved_peak_bytes"], reserved)
            assert pool["contradictions"] == 0, pool["contradictions"]
        assert {(b["address"], b["bytes"]) for b in pool["blocks"]} == blocks.get(device, set())
        assert sum(b["bytes"] for b in pool["blocks"]) == pool["in_use_bytes"]
        assert pool["in_use_bytes"] + pool["idle_bytes"] == pool["reserved_bytes"]
        assert pool["checks"] > 0 or "abi2" in library
        assert 0 <= pool["largest_idle_bytes"] <= pool["idle_bytes"]
        if "small_card" in arguments and device == 0:
            assert pool["failed_count"] > 0
        if pool["blocks"]:
            assert "work" in " ".join(b["site"] for b in pool["blocks"]), pool["blocks"][0]
    if "small_card" not in arguments:
        for device in peaks:
            check_holes(pool_of(ours["pools"], device), pool_of(ours["pools"], device)["largest_block"]["bytes"])
    if not {"threads", "small_card", "throw"} & set(arguments):
        check_instants(log, steps, largest)
    check_snapshot(log, folder, blocks, {d: pool_of(ours["pools"], d) for d in peaks})
    text = subprocess.run([gpupeak, "pools", log], check=True, capture_output=True, text=True).stdout
    assert "PyTorch on GPU " in text and "█" in text, text  # the largest peak; a device may be without blocks then
    # The driver's side of the log stays whole, and with pools off there is nothing but it.
    report = json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True, text=True).stdout)
    assert report["quality"]["exact"], report["quality"]
    if "threads" not in arguments:
        without, _, other = run(folder, "off")
        assert without["pools"] == []
        same = json.loads(subprocess.run([gpupeak, "report", "--json", other], check=True, capture_output=True,
                                         text=True).stdout)
        peak = lambda r: [p["bytes"] for p in r["peaks"] if p["scope"].startswith("device")]
        assert peak(report) == peak(same) != [], (peak(report), peak(same))
print(f"{checked} steps equal")
