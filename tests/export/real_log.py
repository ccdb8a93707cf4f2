#!/usr/bin/env python3
"""A log of the real onnxruntime_perf_test, ResNet-50 on the CPU, through every verb and every export: each works, and what
it says is what the report says.

usage: real_log.py LIBGPUPEAK GPUPEAK CLIENTS_FOLDER WORK_FOLDER READERS_FOLDER
Exit code 77: the client is not here, or could not be fetched.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, Skipped, environment, expect, expect_heap_is_what_events_leave, run_checks  # noqa: E402
from exported import Log  # noqa: E402
import readers  # noqa: E402
import sql  # noqa: E402
import views  # noqa: E402

CLIENTS, WORK, READERS = sys.argv[3:6]
MIB = 1 << 20


def gpupeak(*arguments, code=0):
    done = subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    expect(done.returncode == code, f"{arguments} gives {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done.stdout.decode()


def record(folder):
    get = os.path.join(CLIENTS, "onnxruntime/get.sh")
    if not os.path.exists(get):
        raise Skipped(f"no ONNX Runtime client in {CLIENTS} (GPUPEAK_CLIENTS)")
    place = os.path.join(WORK, "onnxruntime")
    if subprocess.run([get, place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("the ONNX Runtime client could not be fetched")
    log = os.path.join(folder, "resnet50.gplog")
    subprocess.run([GPUPEAK, "run", "-q", "--host", "full", "-o", log, "--", os.path.join(place, "onnxruntime_perf_test"), "-e", "cpu", "-r", "3", "-I",
                    os.path.join(place, "models/light_resnet50.onnx")], env=environment(folder, False), stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    return Log(log)


def verbs(log, folder):
    """Those that views.py does not cover."""
    path, peak = log.path, log.peak("host")
    expect(peak > 100 * MIB, f"the peak is {peak}: no weights?")
    for by in ("site", "function", "module", "phase", "tag", "kind", "thread", "ip"):
        expect(f"sum {peak} = peak, residual 0" in gpupeak("report", "--bytes", "--by", by, path), f"report --by {by}")
    expect(f"Peak host heap: {log.peak('host/heap')} bytes" in gpupeak("report", "--short", path), "report --short")
    expect(gpupeak("report", "--csv", path).count("\n") > 10, "report --csv")
    expect("create_session" in gpupeak("phases", path), "phases")
    tags = json.loads(gpupeak("tags", "--json", path))
    for table in ("layers", "tags"):
        expect(sum(row["bytes"] for row in tags[table]) == tags["bytes"] == peak, f"tags: {table} do not add up")
    timeline = json.loads(gpupeak("timeline", "--json", path))
    series = next(s for s in timeline["series"] if s["name"] == "host")
    expect(max(bucket[2] for bucket in series["buckets"]) == peak, "timeline")
    expect(f"{peak / MIB:.0f} MiB" in gpupeak("timeline", path), "timeline in text")
    for option, start in (("--svg", b"<svg"), ("--png", b"\x89PNG")):
        out = os.path.join(folder, "timeline" + option)
        if option == "--png" and not any(os.access(os.path.join(d, "rsvg-convert"), os.X_OK) for d in os.environ["PATH"].split(":")):
            print("no rsvg-convert here: --png was not tried")
            continue
        gpupeak("timeline", option, out, path)
        with open(out, "rb") as file:
            expect(start in file.read(500), f"timeline {option}")
    diff = json.loads(gpupeak("diff", "--json", path, path))
    expect(all(p["change_bytes"] == 0 for p in diff["peaks"]), "diff with itself")
    compare = json.loads(gpupeak("diff", "--side-by-side", "--json", path, path))
    expect(next(p["bytes"] for p in compare["peaks"] if p["scope"] == "host") == [peak, peak], "compare")
    gpupeak("check", "--max", f"host.peak_bytes={peak}", "--max", f"host.peak_bytes@phase:create_session={peak}", path)
    gpupeak("check", "--max", f"host.peak_bytes={peak - 1}", path, code=1)
    expect(gpupeak("metrics", "--metric", "host.peak_bytes", path) == f"host.peak_bytes {peak}\n", "metrics")
    for packed in ("bundle", "bundle --log"):
        out = os.path.join(folder, packed)
        gpupeak(*packed.split(), "-q", "-o", out, path)
        expect(gpupeak("metrics", "--metric", "host.peak_bytes", out) == f"host.peak_bytes {peak}\n", packed)
    gpupeak("bundle", "--symbols", "-q", "-o", os.path.join(folder, "symbols"), path)
    hidden = gpupeak("report", "--confidential", "--top", "100", path)
    expect(f"sum {peak / MIB:.0f} MiB = peak" in hidden, "report --confidential")
    expect(not re.search(r"onnxruntime|resnet", hidden), "report --confidential shows a name")
    expect_heap_is_what_events_leave(path, log.summary)  # dump


def page(log, folder):
    for verb, logs in (("report", [log.path]), ("diff", [log.path, log.path])):
        out = os.path.join(folder, verb + ".html")
        done = subprocess.run([GPUPEAK, verb, "--html", out, *logs], stderr=subprocess.PIPE, check=False)
        if b"built without the page" in done.stderr:
            print("no page in this gpupeak")
            return
        expect(done.returncode == 0, done.stderr.decode())
        with open(out, encoding="utf-8") as file:
            data = json.loads(file.read().split('id="data">')[1].split("</script>")[0])
        for run in data["runs"]:
            host = next(scope for scope in run["scopes"] if scope["name"] == "host")
            expect(host["bytes"] == log.peak("host") == host["flame"][1], "page")
        expect(os.path.getsize(out) < 5_000_000 * len(logs), f"the page has {os.path.getsize(out)} bytes")


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = record(folder)
        verbs(log, folder)
        page(log, folder)
        for name, check in {**readers.CHECKS, **sql.CHECKS, "views": views.views}.items():
            try:
                check(log, READERS)
                print(f"{name}: ok", flush=True)
            except Skipped as skipped:
                print(f"{name} skipped: {skipped}", flush=True)


run_checks(main)
