"""Where the command and the library that is preloaded lie, and how the command is asked."""
import json
import os
import shutil
import subprocess
from typing import Any, Dict, Iterator, Optional

_HERE = os.path.dirname(os.path.abspath(__file__))


class GpupeakError(Exception):
    """The command is missing, or it could not read a log; the message says what to do."""


def _folders() -> Iterator[str]:
    """Each may have bin/gpupeak and lib/gpupeak/libgpupeak.so in it."""
    yield _HERE  # in the wheel
    folder = _HERE
    for _ in range(4):  # <prefix>/lib/python3/dist-packages/gpupeak
        folder = os.path.dirname(folder)
        yield folder


def command() -> str:
    """The path of the command ``gpupeak``: the one that the variable GPUPEAK_COMMAND names, that lies beside this module, or
    that is on the PATH. Raises GpupeakError."""
    named = os.environ.get("GPUPEAK_COMMAND")
    if named:
        return named
    for folder in _folders():
        path = os.path.join(folder, "bin", "gpupeak")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("gpupeak")
    if found:
        return found
    raise GpupeakError("the command gpupeak is not beside this module and not on the PATH; put it there, or set GPUPEAK_COMMAND to its path")


def library() -> str:
    """The path of libgpupeak.so, for LD_PRELOAD: the one that belongs to the command. Raises GpupeakError."""
    named = os.environ.get("GPUPEAK_LIBRARY")
    if named:
        return named
    own = os.path.dirname(os.path.realpath(command()))
    for place in ("../lib/gpupeak", "../lib64/gpupeak", "../preload"):
        path = os.path.normpath(os.path.join(own, place, "libgpupeak.so"))
        if os.path.exists(path):
            return path
    raise GpupeakError("libgpupeak.so is not where the command {} has it; set GPUPEAK_LIBRARY to its path".format(command()))


def clean_environment() -> Dict[str, str]:
    """This process's, without what would record the program that is started."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GPUPEAK_")}
    kept = [path for path in env.pop("LD_PRELOAD", "").replace(":", " ").split() if os.path.basename(path) != "libgpupeak.so"]
    if kept:
        env["LD_PRELOAD"] = ":".join(kept)
    return env


def ask(*arguments: str, within: Optional[float] = None) -> Any:
    """What the command prints as JSON. Raises GpupeakError with its own words where it fails, or takes longer than ``within``
    seconds."""
    words = [command(), *arguments]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(), check=False, timeout=within)
    except OSError as error:
        raise GpupeakError("cannot start {}: {}".format(words[0], error)) from error
    except subprocess.TimeoutExpired as error:
        raise GpupeakError("gpupeak {} took more than {:g} s".format(arguments[0], within)) from error
    if done.returncode not in (0, 4):
        said = done.stderr.decode(errors="replace").strip()
        raise GpupeakError(said or "gpupeak {} ended with {}".format(arguments[0], done.returncode))
    return json.loads(done.stdout.decode())
