"""A program that looks for the driver in an odd way ends with 0 and says "done", with the preload as without it.

usage: check_reach.py PRELOAD LIBRARY_PATH PROGRAM [ARGUMENT…]
"""
import os
import subprocess
import sys
import tempfile

preload, library_path, *command = sys.argv[1:]


def run(**more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
    environment.update(LD_LIBRARY_PATH=library_path, **more)
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "done\n"), done


run()
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    run(LD_PRELOAD=preload, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off")
    assert os.path.getsize(log) > 0, "no log was written"
