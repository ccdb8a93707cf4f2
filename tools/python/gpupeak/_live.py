"""The counters of the running process, by gpupeak.h's functions. Nothing is built: they are looked up in the process itself."""
import ctypes
import functools
import inspect
import re
import threading
import warnings
from types import TracebackType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Type, TypeVar, Union, overload

_HOST = {"host.heap": 0, "host.pinned": 1, "host.registered": 2, "managed": 3}
_DEVICE, _DEVICES = 16, 24
_KINDS = {"": 16, "linear": 17, "pool": 18, "vmm": 19, "array": 20, "graph": 21}


class Counter(NamedTuple):
    """One kind of memory. Bytes; those of ``host.heap`` are usable bytes, and other threads' last 64 KiB may be missing in them."""
    live_bytes: int
    peak_bytes: int
    """The most since recording began."""
    window_peak_bytes: int
    """The most since ``reset()``, or since recording began."""
    alloc_count: Optional[int]
    """Counted for ``host.heap`` and ``device:N``; else None."""


class _Usage(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("live", "peak", "window", "count")]


class _Library:
    """The functions; where the library is not preloaded, functions that do nothing and return 0. They do not block, so the GIL is kept."""

    def __init__(self) -> None:
        process = ctypes.PyDLL(None)

        def find(name: str, result: Any, *arguments: Any) -> Any:
            function = getattr(process, "gpupeak_api_" + name, None)
            if function is None:
                return lambda *_: 0
            function.restype, function.argtypes = result, arguments
            return function

        text, number, size = ctypes.c_char_p, ctypes.c_uint64, ctypes.c_size_t
        self.phase_push = find("phase_push", None, text)
        self.phase_pop = find("phase_pop", None)
        self.mark = find("mark", None, text)
        self.tag_push = find("tag_push", None, text)
        self.tag_pop = find("tag_pop", None)
        self.arena_create = find("arena_create", number, text, number, size)
        self.arena_destroy = find("arena_destroy", None, number)
        self.arena_reset = find("arena_reset", None, number)
        self.arena_alloc = find("arena_alloc", None, number, number, size, text)
        self.arena_free = find("arena_free", None, number, number)
        self.usage = find("usage", ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Usage))
        self.reset_window = find("reset_window", None)


_library = _Library()


def _bytes_of(name: str) -> bytes:
    return name.encode("utf-8", "replace").split(b"\0")[0]


def _read(what: int, device: int) -> Optional[Counter]:
    usage = _Usage()
    if not _library.usage(what, device, ctypes.byref(usage)):
        return None
    return Counter(usage.live, usage.peak, usage.window, usage.count if what in (0, _DEVICE) else None)


def _place(scope: str) -> "tuple[int, int]":
    """What the library is asked for. Raises ValueError."""
    name = scope.replace("/", ".")
    if name in _HOST:
        return _HOST[name], 0
    found = re.match(r"^device:([0-9]+)(?:\.(linear|pool|vmm|array|graph))?$", name)
    if found is None or int(found.group(1)) >= _DEVICES:
        raise ValueError("{!r} is not counted: ask for host.heap, host.pinned, host.registered, managed, device:0 or device:0.linear "
                         "(pool, vmm, array, graph)".format(scope))
    return _KINDS[found.group(2) or ""], int(found.group(1))


def _read_all() -> Dict[str, Counter]:
    """All that is measured, GPUs as far as they were used."""
    found = {}
    for name, what in _HOST.items():
        counter = _read(what, 0)
        if counter is not None:
            found[name] = counter
    for device in range(_DEVICES if found else 0):
        whole = _read(_DEVICE, device)
        if whole is None or not (whole.peak_bytes or whole.alloc_count):
            continue
        found["device:{}".format(device)] = whole
        for kind, what in _KINDS.items():
            counter = _read(what, device) if kind else None
            if counter is not None and counter.peak_bytes:
                found["device:{}.{}".format(device, kind)] = counter
    return found


class _Window:
    """The highest of each counter since it was opened. The library has one window for the whole process; so whoever begins it
    anew first tells all that are open what was in it."""

    def __init__(self, start: Dict[str, int]) -> None:
        self.start = start
        self.peaks = dict(start)

    def note(self, counters: Dict[str, Counter]) -> None:
        for name, counter in counters.items():
            self.peaks[name] = max(self.peaks.get(name, 0), counter.window_peak_bytes)


_lock = threading.RLock()
_open: List[_Window] = []
_since_reset: Optional[_Window] = None


def _note_all() -> Dict[str, Counter]:
    counters = _read_all()
    for window in _open if _since_reset is None else [*_open, _since_reset]:
        window.note(counters)
    return counters


def _live_of(counters: Dict[str, Counter]) -> Dict[str, int]:
    return {name: counter.live_bytes for name, counter in counters.items()}


def _open_window() -> _Window:
    global _since_reset
    with _lock:
        counters = _note_all()
        if _since_reset is None and counters:  # what usage() has told so far goes on
            _since_reset = _Window({name: counter.window_peak_bytes for name, counter in counters.items()})
        _library.reset_window()
        window = _Window(_live_of(counters))
        _open.append(window)
        return window


def _look_at(window: _Window) -> Dict[str, Counter]:
    """Brings the peaks of an open window up to this moment."""
    with _lock:
        counters = _read_all()
        window.note(counters)
        return counters


def _close_window(window: _Window) -> Dict[str, int]:
    """What is live now."""
    with _lock:
        counters = _note_all()
        if window in _open:
            _open.remove(window)
        return _live_of(counters)


_warned = False


def active(warn: bool = False) -> bool:
    """Whether this process is being recorded now. With ``warn`` a RuntimeWarning says once if it is not."""
    global _warned
    recorded = _read(_HOST["host.pinned"], 0) is not None
    if warn and not recorded and not _warned:
        _warned = True
        warnings.warn("gpupeak does not record this process: start it with `gpupeak run -- python3 …`; until then phases, marks and tags "
                      "do nothing and all figures are None", RuntimeWarning, stacklevel=2)
    return recorded


def log_path() -> Optional[str]:
    """The log that this process writes; None: none. It has it mapped."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                path = line.rstrip("\n").split(None, 5)[5:]
                if path and path[0].endswith(".gplog"):
                    return path[0]
    except OSError:
        pass
    return None


@overload
def usage() -> Dict[str, Counter]: ...
@overload
def usage(scope: str) -> Optional[Counter]: ...


def usage(scope: Optional[str] = None) -> Union[Dict[str, Counter], Optional[Counter]]:
    """The counters now, by name: ``host.heap``, ``host.pinned``, ``host.registered``, ``managed`` (of all GPUs), ``device:0``,
    ``device:0.linear`` … GPUs that were not used and kinds of which there was nothing are left out, and all of them where nothing
    is recorded. With a name that counter alone; None: it is not measured. Raises ValueError for a name that is none."""
    with _lock:
        if scope is None:
            counters = _read_all()
        else:
            one = _read(*_place(scope))
            if one is None:
                return None
            counters = {scope: one}
        if _since_reset is not None:  # phases have begun the library's own window anew
            counters = {name: counter._replace(window_peak_bytes=max(counter.window_peak_bytes,
                                                                     _since_reset.peaks.get(name.replace("/", "."), 0)))
                        for name, counter in counters.items()}
        return counters if scope is None else counters[scope]


def reset() -> None:
    """From here on ``window_peak_bytes`` counts anew. Peaks of the run and of open phases stay."""
    global _since_reset
    with _lock:
        _since_reset = None
        counters = _note_all()
        _library.reset_window()
        _since_reset = _Window(_live_of(counters)) if _open else None


def mark(name: str) -> None:
    """Marks this instant in the log."""
    _library.mark(_bytes_of(name))


_F = TypeVar("_F", bound=Callable[..., Any])


class _Scope:
    """What phase and tag share: each is a context manager and a decorator."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, function: _F) -> _F:
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("{} gives control away while it runs, but a {} belongs to a thread: use `with` around what runs at once"
                            .format(getattr(function, "__qualname__", function), type(self).__name__))

        @functools.wraps(function)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            with type(self)(self.name):  # type: ignore[attr-defined]
                return function(*arguments, **named)

        return wrapped  # type: ignore[return-value]


class phase(_Scope):
    """A phase of the calling thread, as a context manager or a decorator; phases nest. The log has it, and the object tells its
    own figures, while it is open and afterwards::

        with gpupeak.phase("load") as load:
            …
        load.peak("device:0"), load.growth("host.heap")

    Peaks are exact for all that the process allocates, by whatever thread, in the GPU's case; of the heap other threads' last
    64 KiB may be missing. If the program itself calls gpupeak_reset_window() meanwhile, what was before that counts no more."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._window: Optional[_Window] = None
        self._end: Optional[Dict[str, int]] = None

    def __enter__(self) -> "phase":
        if self._window is not None and self._end is None:
            raise RuntimeError("phase {!r} is open already".format(self.name))
        _library.phase_push(_bytes_of(self.name))
        self._end = None
        self._window = _open_window()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if self._window is not None:
            self._end = _close_window(self._window)
        _library.phase_pop()

    def _figures(self, scope: str) -> "Optional[tuple[int, int, int]]":
        _place(scope)
        name = scope.replace("/", ".")
        if self._window is None:
            return None
        end = _live_of(_look_at(self._window)) if self._end is None else self._end
        if not end or (name in _HOST and name not in end):
            return None  # nothing is recorded, or not the heap
        start = self._window.start.get(name, 0)
        return start, max(self._window.peaks.get(name, 0), start), end.get(name, 0)

    def start(self, scope: str) -> Optional[int]:
        """Bytes that were live as it began."""
        figures = self._figures(scope)
        return None if figures is None else figures[0]

    def peak(self, scope: str) -> Optional[int]:
        """The most bytes that were live at once within it, whoever allocated them: of ``device:0``, ``host.heap`` … (see
        usage()). None: not measured. Raises ValueError for a name that is none."""
        figures = self._figures(scope)
        return None if figures is None else figures[1]

    def end(self, scope: str) -> Optional[int]:
        """Bytes that were live as it ended; that are live now, while it is open."""
        figures = self._figures(scope)
        return None if figures is None else figures[2]

    def growth(self, scope: str) -> Optional[int]:
        """Bytes live at its end less those at its start; below zero if it gave memory back."""
        figures = self._figures(scope)
        return None if figures is None else figures[2] - figures[0]

    def scopes(self) -> List[str]:
        """What was measured, by name."""
        if self._window is None:
            return []
        return sorted(set(self._end if self._end is not None else _look_at(self._window)))


class tag(_Scope):
    """What the calling thread allocates within it is for ``name``: a layer, weights, a request. A context manager or a decorator;
    tags nest."""

    def __enter__(self) -> "tag":
        _library.tag_push(_bytes_of(self.name))
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        _library.tag_pop()


class Arena:
    """A sub-allocator of the program's: it hands out parts of memory that it got elsewhere. The report shows what it has in use
    within that; it counts towards no other sum. ``address`` and ``size`` (bytes): the memory that it manages; 0 and 0 if that is in several
    pieces or grows. A context manager that destroys it."""

    def __init__(self, name: str, address: int = 0, size: int = 0) -> None:
        self._number = _library.arena_create(_bytes_of(name), address, size)

    def allocated(self, address: int, size: int, name: Optional[str] = None) -> None:
        """Call it after the arena has handed out ``size`` bytes at ``address``."""
        _library.arena_alloc(self._number, address, size, None if name is None else _bytes_of(name))

    def freed(self, address: int) -> None:
        """Call it before the arena may hand out ``address`` again."""
        _library.arena_free(self._number, address)

    def reset(self) -> None:
        """All that it has handed out is free again."""
        _library.arena_reset(self._number)

    def destroy(self) -> None:
        _library.arena_destroy(self._number)
        self._number = 0

    def __enter__(self) -> "Arena":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.destroy()
