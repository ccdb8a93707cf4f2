"""A program leaves a driver call by a jump: what it allocates afterwards is in the report.

usage: check_jump.py PRELOAD DRIVER_FOLDER GPUPEAK PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

preload, driver, gpupeak, program = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    environment = dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=driver, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off")
    subprocess.run([program], env=environment, check=True, timeout=60)
    summary = json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True).stdout)
live = summary["metrics"]["device.live_bytes"]
assert live == 100 * 1000, f"{live} bytes of device memory are live, in truth 100,000"
