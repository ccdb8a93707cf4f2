"""A container as docs/hurry/containers.md describes it, made of the kernel's own namespaces: a read-only root, no capabilities, no
new privileges, another user, PIDs, network and host name of its own; gpupeak's installed folder mounted read-only, one folder for
logs, two variables.

usage: containers.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK FOLDER_OF_THE_DRIVER BUILD_FOLDER CMAKE
Exit code 77: no right to make namespaces.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from common import Skipped, expect, report, run_checks

BENCHMARK, DRIVER, BUILD, CMAKE = sys.argv[3:7]
NOBODY = "65534"
# The shell is the container's first process until it becomes the program. Everything is read-only but the folder of the logs.
SETUP = r"""
set -e
mount --make-rprivate /
for place in / /tmp /var /home /root /work; do
  [ -d "$place" ] && mount --bind "$place" "$place" 2>/dev/null && mount -o remount,bind,ro "$place" || true
done
mount --bind "$TOOLS" "$IN_TOOLS"; mount -o remount,bind,ro "$IN_TOOLS"
mount --bind "$LOGS" "$IN_LOGS"; mount -o remount,bind,rw "$IN_LOGS"
hostname box
if touch "$IN_TOOLS/x" 2>/dev/null || touch "$ROOT_FOLDER/x" 2>/dev/null; then echo "the root can be written"; exit 99; fi
exec setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all \
  env LD_PRELOAD="$IN_TOOLS/lib/gpupeak/libgpupeak.so" GPUPEAK_OUT="$IN_LOGS/$NAME" LD_LIBRARY_PATH="$IN_TOOLS/driver" "$IN_TOOLS/program"
"""
UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--net", "--uts", "--ipc"]


def start(folder, name):
    """A container with the program as its first process."""
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "NAME": name, "USER_ID": NOBODY, "ROOT_FOLDER": folder,
           "TOOLS": os.path.join(folder, "host/tools"), "LOGS": os.path.join(folder, "host/logs"),
           "IN_TOOLS": os.path.join(folder, "box/tools"), "IN_LOGS": os.path.join(folder, "box/logs")}
    return subprocess.Popen([*UNSHARE, "bash", "-c", SETUP], env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def finish(container):
    out, err = container.communicate(timeout=120)
    expect(container.returncode == 0, f"the program gives {container.returncode}: {out}{err}")
    expect("expected device peak: 795344896 bytes" in out, f"the program says: {out}")
    expect("Nothing is recorded" not in err, err)
    return err


def expect_exact(log):
    summary = report(log)
    expect(summary["quality"]["exact"] and summary["quality"]["log_complete"], f"{log}: {summary['quality']}")
    expect(summary["metrics"]["device.peak_bytes"] == 795344896, f"{log}: {summary['metrics']['device.peak_bytes']}")


def main():
    needed = ("unshare", "setpriv", "mount", "hostname")
    if os.geteuid() != 0 or any(shutil.which(tool) is None for tool in needed):
        raise Skipped("no root, unshare or setpriv")
    if subprocess.run([*UNSHARE, "mount", "--make-rprivate", "/"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("no namespaces here")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for sub in ("host/logs", "box/tools", "box/logs"):
            os.makedirs(os.path.join(folder, sub))
        tools, logs = os.path.join(folder, "host/tools"), os.path.join(folder, "host/logs")
        os.chown(logs, int(NOBODY), int(NOBODY))
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", tools], stdout=subprocess.DEVNULL, check=True)
        shutil.copy(BENCHMARK, os.path.join(tools, "program"))
        os.mkdir(os.path.join(tools, "driver"))
        for library in glob.glob(os.path.join(DRIVER, "lib*.so*")):
            shutil.copy(library, os.path.join(tools, "driver"))

        said = finish(start(folder, "%n.%h.%p.gplog"))
        log = os.path.join(logs, "program.box.1.gplog")
        expect(os.listdir(logs) == [os.path.basename(log)], f"logs: {os.listdir(logs)}")
        expect("Peak device memory (GPU 0): 795344896 bytes" in said, f"no summary: {said}")
        expect_exact(log)

        # Two containers with one name in one folder, each with process 1: at the same time, then once more. No log replaces that of a running
        # program.
        os.unlink(log)
        boxes = [start(folder, "same.gplog") for _ in range(2)]
        for box in boxes:
            finish(box)
        found = glob.glob(os.path.join(logs, "*.gplog"))
        expect(1 <= len(found) <= 2, f"logs: {found}")  # one, if the first had ended before the second began
        for log in found:
            expect_exact(log)


run_checks(main)
