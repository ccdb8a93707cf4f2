"""Clients that bypass a preloaded library are seen with `gpupeak run --audit`, to the byte.

usage: check_audit.py DRIVER_FOLDER GPUPEAK PROGRAM PLUGIN deepbind|dlmopen
"""
import json
import os
import subprocess
import sys
import tempfile

driver, gpupeak, program, plugin, way = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    environment = dict(os.environ, LD_LIBRARY_PATH=driver, FAKE_CUDA_COSTS="on")
    run = subprocess.run([gpupeak, "run", "--audit", "-o", log, "--", program, way, plugin], env=environment, check=False,
                         capture_output=True, text=True, timeout=100)
    assert (run.returncode, run.stdout) == (0, "done\n"), run
    report = json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True).stdout)
assert report["metrics"]["device.peak_bytes"] == 123456789, report["metrics"]
assert report["quality"]["unmatched_frees"] == 0, report["quality"]
