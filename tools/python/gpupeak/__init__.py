"""The exact peak memory of a program and its GPUs, from within and afterwards.

Within a program that runs under gpupeak (``gpupeak run -- python3 train.py``)::

    import gpupeak

    with gpupeak.phase("load") as load:
        model = build()
    print(load.peak("device:0"), load.growth("host.heap"))  # bytes

Without the preload all of it does nothing, and every figure is None. Afterwards, from the log::

    run = gpupeak.read("train.gplog")
    print(run.peak("device:0").bytes)
    pandas.DataFrame(run.rows("device:0"))

Sizes are bytes, times nanoseconds; what was not measured is None, never 0.
"""
from ._command import GpupeakError, command, library
from ._live import Arena, Counter, active, mark, phase, reset, tag, usage
from ._log import Arena as ArenaOfLog
from ._log import Device, Failure, Frame, Holder, Peak, Phase, Quality, Run, read
from ._version import __version__

__all__ = [
    "Arena", "ArenaOfLog", "Counter", "Device", "Failure", "Frame", "GpupeakError", "Holder", "Peak", "Phase", "Quality", "Run",
    "__version__", "active", "command", "library", "load_ipython_extension", "mark", "phase", "read", "reset", "tag", "usage",
]


def load_ipython_extension(shell):  # type: ignore[no-untyped-def]
    """``%load_ext gpupeak``: the cell magic ``%%gpupeak``."""
    from .notebook import load
    load(shell)
