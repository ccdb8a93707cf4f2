"""What the tests of Python call sites share: interpreters to be found, and a log's call sites."""
import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from counters import read as counters_of  # noqa: F401

SKIPPED = 77
MAX_FRAMES = 1024  # GPUPEAK_MAX_FRAMES
HERE = os.path.dirname(os.path.abspath(__file__))


def identify(python):
    """major.minor and the interpreter itself, behind any wrapper; None if it does not run."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    except OSError:
        return None
    return result.stdout.decode().strip().split(" ", 1) if result.returncode == 0 else None


def find_pythons(version):
    """Those named in GPUPEAK_TEST_PYTHONS, a list of paths or patterns between colons, pyenv's, and those on the path."""
    pyenv = os.path.join(os.environ.get("PYENV_ROOT", "~/.pyenv"), f"versions/{version}.*/bin/python3")
    candidates = [path for pattern in [*os.environ.get("GPUPEAK_TEST_PYTHONS", "").split(":"), pyenv] if pattern
                  for path in sorted(glob.glob(os.path.expanduser(pattern)))]
    candidates += [path for path in (shutil.which("python" + version), "/usr/bin/python3") if path]
    found = {}
    for path in candidates:
        known = identify(path)
        if known and known[0] == version:
            found.setdefault(os.path.realpath(known[1]), known[1])
    return list(found.values())


class Log:
    """What `gpupeak export events` says."""

    def __init__(self, tool, path):
        self.frames, self.nodes = {}, {}
        self.sites, self.blocks = {}, {}  # of the device and of the host, by size
        text = subprocess.run([tool, "export", "events", path], stdout=subprocess.PIPE, check=True).stdout.decode()
        for line in text.splitlines():
            words = line.split(" ")
            if words[0] == "python_frame":
                function, place = re.fullmatch(r"python_frame \d+ (\S+) (.*)", line).groups()
                file, _, number = place.rpartition(":")
                self.frames[words[1]] = [file, function, int(number)]
            elif words[0] == "node":
                self.nodes[words[1]] = (words[3], words[5] if words[4] == "python_frame" else None, words[-1])
            elif " device_alloc " in line:
                match = re.search(r" bytes (\d+) .* stack (\d+) ", line)
                self.sites[int(match.group(1))] = match.group(2)
            elif " alloc " in line or " map " in line:
                match = re.search(r" (?:size|bytes) (\d+) .*stack (\d+)$", line)
                self.blocks[int(match.group(1))] = match.group(2)
        self.text = text

    def stack(self, size):
        """Nodes, innermost first."""
        node = self.sites.get(size, self.blocks.get(size))
        while node not in (None, "0"):
            yield self.nodes[node]
            node = self.nodes[node][0]

    def python_frames(self, size):
        return [self.frames[frame] for _, frame, _ in self.stack(size) if frame is not None]


def shown(text):
    """As the tool escapes what is no printable UTF-8."""
    raw = text.encode("utf-8", "surrogateescape")[:1024]
    return "".join(c if not 0xdc80 <= ord(c) <= 0xdcff else "\\x%02x" % (ord(c) - 0xdc00)
                   for c in raw.decode("utf-8", "surrogateescape"))


def expected_frames(entry):
    """What Python said, as the log should have it."""
    return [[shown(name), shown(function), number] for name, function, number in entry["frames"]][:MAX_FRAMES]


def environment_of(options, folder, preload=True):
    environment = dict(os.environ, LD_LIBRARY_PATH=options.driver, PYTHONDONTWRITEBYTECODE="1")
    environment.pop("GPUPEAK_PYTHON", None)
    if preload:
        environment.update(LD_PRELOAD=options.preload, GPUPEAK_OUT=os.path.join(folder, "%p.gplog"),
                           GPUPEAK_SUMMARY="off")
    return environment


def add_common_options(parser):
    parser.add_argument("--preload", required=True, help="libgpupeak.so")
    parser.add_argument("--tool", required=True, help="gpupeak")
    parser.add_argument("--driver", required=True, help="the folder of the simulated libcuda.so.1")
