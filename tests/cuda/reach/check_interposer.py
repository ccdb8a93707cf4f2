#!/usr/bin/env python3
"""Another interposer of libcuda sees each call that it sees without us, and we record what we record without it, whichever of
the two is preloaded first.

usage: check_interposer.py LIBGPUPEAK DRIVER_FOLDER GPUPEAK INTERPOSER NEXT PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

LIBRARY, DRIVER, COMMAND, INTERPOSER, NEXT, PROGRAM = sys.argv[1:7]


def run(folder, *libraries):
    count = os.path.join(folder, "count")
    log = os.path.join(folder, "a.gplog")
    environment = dict(os.environ, LD_LIBRARY_PATH=DRIVER, LD_PRELOAD=" ".join(libraries), GPUPEAK_OUT=log,
                       GPUPEAK_SUMMARY="off", INTERPOSER_NEXT=NEXT, INTERPOSER_COUNT=count)
    done = subprocess.run([PROGRAM], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    calls = int(open(count).read()) if INTERPOSER in libraries else None
    recorded = None
    if LIBRARY in libraries:
        text = subprocess.run([COMMAND, "report", "--json", log], stdout=subprocess.PIPE, check=True).stdout
        summary = json.loads(text)
        assert summary["quality"]["exact"], summary["quality"]
        recorded = summary["metrics"]["device.peak_bytes"], summary["quality"]["device_events"]
        os.unlink(log)
    return (done.returncode, done.stdout, done.stderr), calls, recorded


with tempfile.TemporaryDirectory() as temporary:
    native, seen, _ = run(temporary, INTERPOSER)
    ours_alone, _, recorded_alone = run(temporary, LIBRARY)
    assert native[0] == 0 and ours_alone == native, (native, ours_alone)
    assert seen > 0 and recorded_alone[1] > 0, (seen, recorded_alone)
    for order in ((LIBRARY, INTERPOSER), (INTERPOSER, LIBRARY)):
        result, calls, recorded = run(temporary, *order)
        names = " ".join(os.path.basename(name) for name in order)
        assert result == native, f"{names}: {result}, not {native}"
        assert calls == seen, f"{names}: the interposer sees {calls} calls, alone {seen}"
        # One before us that has a dlsym of its own, and asks libcuda itself by the C library's, goes round us.
        if order[0] == LIBRARY or "own_dlsym" not in INTERPOSER:
            assert recorded == recorded_alone, f"{names}: recorded {recorded}, alone {recorded_alone}"
        print(f"{names}: {calls} calls seen, peak and events {recorded}")
