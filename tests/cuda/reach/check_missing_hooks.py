"""A driver newer than gpupeak: what looks like an allocator and has no hook is in the report, and named as a
loss if the program asked for it.

usage: check_missing_hooks.py PRELOAD DRIVER_FOLDER GPUPEAK PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

preload, driver, gpupeak, program = sys.argv[1:]


def report(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "run.gplog")
        environment = dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=driver, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off")
        subprocess.run([program, *arguments], env=environment, check=True, timeout=60)
        return json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True).stdout)["quality"]


silent, asking = report(), report("asks")
codes = [[warning["code"] for warning in quality["warnings"]] for quality in (silent, asking)]
assert silent["hooks_missing"] == ["cuMemAllocShiny"], silent
assert "GP032" not in codes[0] and silent["exact"], silent
assert sorted(asking["hooks_missing"]) == ["cuMemAllocPitch", "cuMemAllocShiny"], asking
assert "GP032" in codes[1] and not asking["exact"], asking
