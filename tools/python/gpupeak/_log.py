"""A log's summary as plain values: what `gpupeak report --json` says. docs/metrics.md has the meaning of each figure."""
import os
from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Optional, Type, TypeVar, Union

from ._command import ask


@dataclass(frozen=True)
class Frame:
    """One call of a stack, innermost first."""
    function: Optional[str]
    module: Optional[str]
    file: Optional[str]
    line: Optional[int]
    language: Optional[str]
    """``python`` for a Python frame; None: native."""


@dataclass(frozen=True)
class Holder:
    """A call site's share of a peak."""
    site: Optional[str]
    """Its functions as the report prints them; None: no stack."""
    kind: Optional[str]
    """``device.linear``, ``host.heap`` …"""
    bytes: int
    count: int
    """Blocks."""
    module: Optional[str]
    phase: Optional[str]
    thread: Optional[int]
    stack: List[Frame] = field(repr=False, default_factory=list)


@dataclass(frozen=True)
class Peak:
    """The most of one sum of live bytes. ``bytes`` is the sum of the holders' and ``other_bytes``, to the byte."""
    scope: str
    bytes: int
    time_ns: Optional[int]
    """Since the log's start."""
    phase: Optional[str]
    holders: List[Holder] = field(repr=False)
    other_bytes: int
    """Of the rows that are not among the holders."""


@dataclass(frozen=True)
class Phase:
    """A phase by name, with all its repetitions."""
    name: str
    parent: Optional[str]
    count: int
    begin_ns: Optional[int]
    end_ns: Optional[int]
    metrics: Dict[str, Optional[int]]
    """``device.peak_bytes``, ``host.kept_bytes`` …"""


@dataclass(frozen=True)
class Device:
    ordinal: int
    name: Optional[str]
    uuid: Optional[str]
    total_bytes: Optional[int]
    metrics: Dict[str, Optional[int]]


@dataclass(frozen=True)
class Failure:
    """A request that the driver or a sub-allocator refused."""
    time_ns: Optional[int]
    device: Optional[int]
    api: Optional[str]
    requested_bytes: Optional[int]
    free_bytes: Optional[int]
    why: Optional[str]
    """What the figures prove to be the reason, in a sentence."""


@dataclass(frozen=True)
class Arena:
    """A sub-allocator at its own peak."""
    name: str
    device: Optional[int]
    peak_bytes: int
    reserved_bytes: Optional[int]
    idle_bytes: Optional[int]


@dataclass(frozen=True)
class Quality:
    exact: bool
    """Whether the figures are exact."""
    log_complete: bool
    warnings: List[str]
    """What was lost or not seen, in sentences. Read them before any figure."""


@dataclass(frozen=True)
class Run:
    path: str
    command: List[str]
    host: Optional[str]
    pid: Optional[int]
    rank: Optional[int]
    start_time: Optional[str]
    duration_ns: Optional[int]
    exit: Optional[Dict[str, Any]]
    labels: Dict[str, str]
    quality: Quality
    devices: List[Device]
    metrics: Dict[str, Optional[int]]
    peaks: List[Peak]
    phases: List[Phase]
    failures: List[Failure]
    arenas: List[Arena]
    json: Dict[str, Any] = field(repr=False)
    """The whole summary, as docs/summary.schema.json describes it."""

    def peak(self, scope: str) -> Optional[Peak]:
        """The peak of ``device:0``, ``host``, ``host/heap`` …; None: the log has nothing of it."""
        return next((peak for peak in self.peaks if peak.scope == scope), None)

    def rows(self, scope: Optional[str] = None) -> List[Dict[str, Any]]:
        """The holders of one peak, or of all, as rows for ``pandas.DataFrame``: scope, site, kind, bytes, percent, count, module,
        phase, thread. The last row of a scope has no site and is what the others have: the rows add up to the peak. Raises
        KeyError for a scope that the log has nothing of."""
        chosen = self.peaks if scope is None else [peak for peak in self.peaks if peak.scope == scope]
        if scope is not None and not chosen:
            raise KeyError("{} has no peak of {!r}, but of {}".format(self.path, scope, ", ".join(peak.scope for peak in self.peaks)))
        rows = []
        for peak in chosen:
            others = [Holder(None, None, peak.other_bytes, None, None, None, None)] if peak.other_bytes else []  # type: ignore[arg-type]
            rows += [{"scope": peak.scope, "site": holder.site, "kind": holder.kind, "bytes": holder.bytes,
                      "percent": 100.0 * holder.bytes / peak.bytes if peak.bytes else 0.0, "count": holder.count, "module": holder.module,
                      "phase": holder.phase, "thread": holder.thread} for holder in [*peak.holders, *others]]
        return rows


_Kind = TypeVar("_Kind")


def _of(kind: Type[_Kind], value: Dict[str, Any], **given: Any) -> _Kind:
    """The fields that are not given are those of the same names in the summary's JSON; None: it has none of this name."""
    return kind(**{**{each.name: value.get(each.name) for each in fields(kind)}, **given})  # type: ignore[arg-type]


def _holder(value: Dict[str, Any]) -> Holder:
    return _of(Holder, value, stack=[_of(Frame, frame) for frame in value.get("stack", [])])


def _arena(value: Dict[str, Any]) -> Arena:
    at_peak = value.get("at_peak") or {}
    return _of(Arena, value, reserved_bytes=at_peak.get("reserved_bytes"), idle_bytes=at_peak.get("idle_bytes"))


def run_of(path: str, value: Dict[str, Any]) -> Run:
    """Of a summary's JSON. Fields that are not known here are in ``json`` alone."""
    return _of(
        Run, value["run"], path=path, labels=value["run"].get("labels") or {}, metrics=value["metrics"],
        quality=_of(Quality, value["quality"], warnings=[warning["message"] for warning in value["quality"]["warnings"]]),
        devices=[_of(Device, device) for device in value["devices"]],
        peaks=[_of(Peak, peak, holders=[_holder(row) for row in peak["holders"]]) for peak in value["peaks"]],
        phases=[_of(Phase, phase) for phase in value["phases"]], failures=[_of(Failure, failure) for failure in value["oom"]],
        arenas=[_arena(arena) for arena in value["arenas"]], json=value)


def read(path: "Union[str, os.PathLike[str]]", top: Optional[int] = None) -> Run:
    """What is known of a log, a bundle, or the process ``LOG#1`` within one. ``top``: how many holders of each peak; the others are
    one sum. Raises GpupeakError if it cannot be read."""
    arguments = ["report", "--json"]
    if top is not None:
        arguments += ["--top", str(top)]
    value = ask(*arguments, "--", os.fspath(path))
    return run_of(os.fspath(path), value[0] if isinstance(value, list) else value)
