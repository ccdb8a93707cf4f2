"""What a failed allocation's report says of the room that was left, on a simulated device of 1 GiB.

usage: check_room.py PRELOAD DRIVER_FOLDER GPUPEAK PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

MIB = 1 << 20
preload, driver, gpupeak, program = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    environment = dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=driver, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off",
                       FAKE_CUDA_MEMORY="1GiB", FAKE_CUDA_FAIL="cuMemFree:2:719,cuMemAlloc:4:719")
    subprocess.run([program], env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL)
    report = json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True).stdout)
    text = subprocess.run([gpupeak, "report", log], check=True, capture_output=True, text=True).stdout
first = report["oom"][0]
# 600 MiB are held, 600 more were asked for.
assert (first["live_bytes"], first["requested_bytes"]) == (600 * MIB, 600 * MIB), first
assert (first["driver_free_bytes"], first["largest_fit_bytes"]) == (424 * MIB, 424 * MIB), first
assert (first["pool_slack_bytes"], first["page_slack_bytes"]) == (0, 0), first
assert sum(holder["bytes"] for holder in first["holders"]) == 600 * MIB, first
assert "would have fitted 424 MiB" in text, text
