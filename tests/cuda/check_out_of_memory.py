"""A program that takes all of a simulated device of 1 GiB and aborts: what nvidia-smi shows then has exact causes.

usage: check_out_of_memory.py PRELOAD DRIVER_FOLDER GPUPEAK PROGRAM
"""
import json
import os
import signal
import subprocess
import sys
import tempfile

TOTAL = 1 << 30
preload, driver, gpupeak, program = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    environment = dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=driver, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off",
                       FAKE_CUDA_MEMORY="1GiB", FAKE_CUDA_COSTS="on", FAKE_NVML="on")
    ended = subprocess.run([program], env=environment, check=False, timeout=60)
    assert ended.returncode == -signal.SIGABRT, ended
    report = json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True).stdout)
device = report["devices"][0]
peak = device["metrics"]["device.peak_bytes"]
for view in (device["ledger"]["at_peak"], *(oom["ledger"] for oom in report["oom"])):
    rows = {row["cause"]: row["bytes"] for row in view["rows"]}
    assert view["tracked_bytes"] == peak, (view, peak)
    assert view["used_bytes"] + report["oom"][0]["driver_free_bytes"] == report["oom"][0]["driver_total_bytes"], view
    assert view["tracked_bytes"] + sum(rows.values()) == view["used_bytes"], view
    assert rows["unexplained"] == 0 and rows["context"] > 0 and rows["rounding"] > 0, view
    assert view["used_bytes"] > TOTAL * 0.98, view
