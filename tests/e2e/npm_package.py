"""Released ONNX Runtimes from npm, each fetched once."""
import glob
import os
import shutil
import subprocess
import tempfile

from common import LIBRARY

with open(LIBRARY, "rb") as elf:
    BINARIES = "linux/arm64" if elf.read(20)[18:] == b"\xb7\0" else "linux/x64"  # for the processor that is tested


def fetch(version, work):
    """The folder with onnxruntime-node and what it needs, the Linux binaries only; None if npm cannot bring them."""
    place = os.path.join(work, f"onnxruntime-node-{version}")
    if os.path.exists(os.path.join(place, "ready")):
        return place
    if shutil.which("npm") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name, parts in (("onnxruntime-node", [f"package/bin/napi-v*/{BINARIES}/*", "package/dist/*", "package/package.json"]),
                            ("onnxruntime-common", ["package/*"])):
            if subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode != 0:
                return None
            target = os.path.join(place, "node_modules", name)
            os.makedirs(target, exist_ok=True)
            subprocess.run(["tar", "xzf", f"{name}-{version}.tgz", "-C", target, "--strip-components", "1", "--wildcards",
                            *parts], cwd=folder, check=True)
    open(os.path.join(place, "ready"), "w").close()
    return place


def library(place):
    """The package's libonnxruntime. Its name differs between releases."""
    return glob.glob(os.path.join(place, f"node_modules/onnxruntime-node/bin/napi-v*/{BINARIES}/libonnxruntime.so.1*"))[0]
