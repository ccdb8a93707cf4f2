"""`compare FOLDER`: a row a run, with the figures of each run's own report, and what has grown. argv: … BENCHMARK DRIVER_FOLDER"""
import csv
import io
import json
import os
import shutil
import sys
import tempfile

from common import GPUPEAK, expect, gpupeak, record, report, run_checks

BENCHMARK, DRIVER = sys.argv[3:5]
HOLDS = "import sys; data = bytearray(int(sys.argv[1]) << 20); sys.exit(int(sys.argv[2]))"


def shown(*words):
    code, text = gpupeak("diff", "--side-by-side", *words)
    expect(code == 0, text)
    return text


def rows(*words):
    return {row["run"]: row for row in json.loads(shown("--json", *words))["runs"]}


def main():
    with tempfile.TemporaryDirectory() as folder:
        now, before = os.path.join(folder, "now"), os.path.join(folder, "before")
        os.mkdir(now)
        os.mkdir(before)
        log = os.path.join(now, "gpu.gplog")
        record(log, BENCHMARK, LD_LIBRARY_PATH=DRIVER)
        record(os.path.join(now, "host.gplog"), sys.executable, "-c", HOLDS, "60", "0")
        record(os.path.join(now, "fails.gplog"), sys.executable, "-c", HOLDS, "20", "3", code=3)
        record(os.path.join(before, "host.gplog"), sys.executable, "-c", HOLDS, "40", "0")
        shutil.copy(log, before)
        with open(log, "rb") as whole, open(os.path.join(now, "torn.gplog"), "wb") as torn:
            torn.write(whole.read()[:20000])

        seen = rows(now, "--against", before)
        expect(set(seen) == {"gpu", "host", "fails", "torn"}, f"{set(seen)}")
        for name in ("gpu", "host", "fails"):
            summary = report(os.path.join(now, f"{name}.gplog"))
            metrics, row = summary["metrics"], seen[name]
            expect(row["device_peak_bytes"] == metrics["device.peak_bytes"], f"{row}")
            expect(row["host_peak_bytes"] == metrics["host.peak_bytes"], f"{row}")
            expect(row["command"] == " ".join(summary["run"]["command"]), f"{row}")
            peak = next(peak for peak in summary["peaks"] if peak["scope"] == ("device:0" if name == "gpu" else "host"))
            expect((row["holder"], row["holder_bytes"], row["holder_of_bytes"]) ==
                   (peak["holders"][0]["site"], peak["holders"][0]["bytes"], peak["bytes"]), f"{row} {peak['holders'][0]}")
        expect(seen["gpu"]["device_before_bytes"] == seen["gpu"]["device_peak_bytes"] > 0, f"{seen['gpu']}")
        grown = seen["host"]["host_peak_bytes"] - seen["host"]["host_before_bytes"]
        expect(abs(grown - (20 << 20)) < 1 << 20, f"{grown}")
        expect(seen["fails"]["host_before_bytes"] is None and seen["fails"]["exit"]["code"] == 3, f"{seen['fails']}")
        expect([seen[name]["complete"] for name in ("gpu", "host", "fails", "torn")] == [True, True, False, False], f"{seen}")

        text = shown(now, "--against", before, "--sort", "change")
        order = [line.split()[0] for line in text.splitlines()[1:-1]]
        expect(order[0] == "host" and set(order) == set(seen), text)
        expect("4 runs, 3 ended with exit 0, 2 complete, 1 grown, 2 not there before" in text, text)
        expect([line.split()[0] for line in shown(now, "--sort", "name").splitlines()[1:-1]] == sorted(seen), "order")
        expect(set(rows(now, "--only", "*s*")) == {"host", "fails"}, "pattern")
        table = list(csv.DictReader(io.StringIO(shown("--csv", now))))
        expect({row["run"]: row["device_peak_bytes"] for row in table}["gpu"] == str(seen["gpu"]["device_peak_bytes"]), f"{table}")
        page = os.path.join(folder, "suite.html")
        shown(now, "--html", page)
        with open(page, encoding="utf-8") as file:
            html = file.read()
        expect(html.count("<tr>") == 5 and "758 MiB" in html, html)


run_checks(main)
