"""pytest: the peak memory of each test, limits on it, and who held it where a limit is broken.

``pytest --gpupeak`` restarts pytest under the preload. The wheel makes it known to pytest; elsewhere ``-p gpupeak.pytest_plugin``.

A test's figures come from the live counters (see usage()): a phase for the fixtures' set-up, one for the test, one for the
teardown. They travel in the report's ``user_properties``: to xdist's controller, and into the JUnit file.
"""
from __future__ import annotations

import os
import shlex
import sys
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional, Set, Tuple

import pytest

from . import _command, _live
from ._sizes import parse_size, size_text

_MARKERS = {
    "limit_device_memory": 'limit_device_memory(size, device=0, own=False): the test fails if more than size ("8GiB") of a GPU is live '
                           "at once while it and its fixtures run, all that is live counted; own=True: while the test alone runs, and "
                           "only what it adds to what was live when it began",
    "limit_host_memory": 'limit_host_memory(size, own=True): the test fails if it adds more than size ("24MiB") of the heap to what was '
                         "live when it began; own=False: all that is live counts, with its fixtures",
    "limit_growth": 'limit_growth(size, scope="host.heap"): the test fails if more than size of scope ("host.heap", "device:0") is left '
                    "when the test and its fixtures have ended, of what was not live before",
}
_HEAP = "host.heap"
_ARGUMENTS: Dict[str, Callable[..., Tuple[Any, str, bool]]] = {  # size, scope, own
    "limit_device_memory": lambda size, device=0, own=False: (size, "device:{}".format(device), own),
    "limit_host_memory": lambda size, own=True: (size, _HEAP, own),
    "limit_growth": lambda size, scope=_HEAP: (size, scope.replace("/", "."), False),
}
_ROWS = 10  # of the table, unless --gpupeak-rows says another number
_EXPLAINED = 10  # broken limits of a process whose holders are looked up; each takes a replay of the log
_PREFIX = "gpupeak."


class _Figures(NamedTuple):
    start: int
    peak: int
    end: int


class _Limit(NamedTuple):
    marker: str
    scope: str
    size: int
    own: bool


def _limits_of(item: pytest.Item) -> List[_Limit]:
    """Raises pytest.UsageError for a marker that is wrong."""
    found = []
    for name in _MARKERS:
        for marker in item.iter_markers(name):
            try:
                size, scope, own = _ARGUMENTS[name](*marker.args, **marker.kwargs)
                _live._place(scope)
                found.append(_Limit(name, scope, parse_size(size), own))
            except (TypeError, ValueError) as error:
                raise pytest.UsageError("{}: {}: {}".format(item.nodeid, name, error)) from None
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpupeak", "peak memory of tests, by gpupeak")
    group.addoption("--gpupeak", action="store_true", help="run under gpupeak: a table of tests by peak memory; markers of limits hold")
    group.addoption("--gpupeak-log", metavar="FOLDER", help="keep the logs there, for `gpupeak report` (default: they are removed)")
    group.addoption("--gpupeak-rows", metavar="N", type=int, default=_ROWS, help="rows of the table; 0: none (default: {})".format(_ROWS))
    group.addoption("--gpupeak-host", choices=("full", "sampled", "counters", "off"), default=None,
                    help="how the host's memory is recorded, as `gpupeak run --host` (default: the command's own)")


def _restart(config: pytest.Config) -> None:
    """The same command line again, under the preload. Before output is captured: the new pytest must get the real streams."""
    folder = config.known_args_namespace.gpupeak_log
    env = dict(os.environ)
    if folder is None:
        import tempfile
        folder = env["GPUPEAK_PYTEST_REMOVE"] = tempfile.mkdtemp(prefix="gpupeak-pytest-")
    os.makedirs(folder, exist_ok=True)
    folder = os.path.abspath(folder)
    before = env.get("LD_PRELOAD", "").replace(":", " ").split()
    env.update(LD_PRELOAD=":".join([_command.library(), *before]), GPUPEAK_SUMMARY="off", GPUPEAK_QUIET="1",
               GPUPEAK_OUT=os.path.join(folder, "pytest.%p.gplog"), GPUPEAK_PYTEST_STARTED=str(os.getpid()))
    env.pop("GPUPEAK_RUN_PID", None)
    env.setdefault("PYTHONMALLOC", "malloc")  # each object is of the heap from its first byte on
    if config.known_args_namespace.gpupeak_host:
        env["GPUPEAK_HOST"] = config.known_args_namespace.gpupeak_host
    with open("/proc/self/cmdline", "rb") as file:
        words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, words, env)


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    if getattr(early_config.known_args_namespace, "gpupeak", False) and not _live.active():
        if "PYTEST_XDIST_WORKER" not in os.environ:
            if os.environ.get("GPUPEAK_PYTEST_STARTED") == str(os.getpid()):
                raise pytest.UsageError("--gpupeak: restarted under {}, and still nothing is recorded; what it says to `LD_PRELOAD` of "
                                        "another program tells why".format(os.environ.get("LD_PRELOAD")))
            try:
                _restart(early_config)
            except (_command.GpupeakError, OSError) as error:
                raise pytest.UsageError("--gpupeak: {}".format(error)) from error
    yield


def pytest_configure(config: pytest.Config) -> None:
    for text in _MARKERS.values():
        config.addinivalue_line("markers", text)
    worker = hasattr(config, "workerinput")
    if not worker and _live.active():
        config.pluginmanager.register(_Workers(), "gpupeak-workers")
    config.pluginmanager.register(_Recorder() if _live.active() else _Unchecked(), "gpupeak-recorder")
    if not worker:
        config.pluginmanager.register(_Reporter(config), "gpupeak-reporter")


class _Workers:
    """xdist's are recorded from their begin, each in a log of its own. Other programs that tests start are recorded only where they use
    a GPU, and count in no test's figures."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self) -> None:
        os.environ.pop("GPUPEAK_RUN_PID", None)  # a process that finds none is the one that was asked for


class _Unchecked:
    """Where nothing is recorded: counts the tests whose limits nobody looks at."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        outcome = yield
        if call.when == "setup" and _limits_of(item):
            outcome.get_result().user_properties.append((_PREFIX + "unchecked", 1))

    def pytest_collection_modifyitems(self, items: List[pytest.Item]) -> None:
        for item in items:
            _limits_of(item)


class _Recorder:
    """In each process that runs tests."""

    def __init__(self) -> None:
        self.phases: Dict[str, Dict[str, _live.phase]] = {}
        self.explained = 0
        self.limits: Dict[str, List[_Limit]] = {}
        self.told: Set[Tuple[str, _Limit]] = set()

    def pytest_collection_modifyitems(self, items: List[pytest.Item]) -> None:
        for item in items:
            limits = _limits_of(item)
            if limits:
                self.limits[item.nodeid] = limits

    def _within(self, item: pytest.Item, step: str) -> Generator[None, None, None]:
        if step == "setup":  # a new try, as of pytest-rerunfailures: what was told of the last one is told again
            self.told = {(test, limit) for test, limit in self.told if test != item.nodeid}
            item.user_properties[:] = [p for p in item.user_properties if not p[0].startswith(_PREFIX)]
        phase = _live.phase("{} [{}]".format(item.nodeid, step))
        self.phases.setdefault(item.nodeid, {})[step] = phase
        with phase:
            yield

    def _hook(step: str) -> Any:  # type: ignore[misc]
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def within(self: Any, item: pytest.Item) -> Generator[None, None, None]:
            yield from self._within(item, step)
        return within

    pytest_runtest_setup, pytest_runtest_call, pytest_runtest_teardown = map(_hook, ("setup", "call", "teardown"))

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        outcome = yield
        report = outcome.get_result()
        phases = self.phases.get(item.nodeid, {})
        if call.when in phases:
            report.user_properties = [*report.user_properties, *_properties(call.when, phases[call.when])]
            item.user_properties.extend(p for p in _properties(call.when, phases[call.when]) if p not in item.user_properties)
        if report.passed and not hasattr(report, "wasxfail"):
            # A broken limit is told with the step that shows it: growth, and what fixtures took, with the teardown.
            broken = []
            for limit in self.limits.get(item.nodeid, []):
                text = None if (item.nodeid, limit) in self.told else self._broken(item, limit, call.when, phases)
                if text is not None:
                    self.told.add((item.nodeid, limit))
                    broken.append(text)
            if broken:
                report.outcome = "failed"
                report.longrepr = "\n\n".join(broken)
                call.excinfo = _failure(report.longrepr)  # by which pytest's xfail knows that the test has failed
        if report.failed and call.when in phases:
            report.sections.append(("gpupeak", "more: " + _command_of(item, call.when)))
        if call.when == "teardown":
            self.phases.pop(item.nodeid, None)

    def _broken(self, item: pytest.Item, limit: _Limit, when: str, phases: Dict[str, _live.phase]) -> Optional[str]:
        if limit.marker == "limit_growth":
            if when != "teardown" or "setup" not in phases:
                return None
            start, end = phases["setup"].start(limit.scope), phases["teardown"].end(limit.scope)
            left = None if start is None or end is None else end - start
            said = "{} of {} are left after the test and its fixtures; {} were live before".format(size_text(left), limit.scope, size_text(start))
            return self._text(limit, left, said, item, "teardown")
        if limit.own and when != "call":
            return None
        peak, start = phases[when].peak(limit.scope), phases[when].start(limit.scope)
        what = {"setup": "its fixtures", "call": "the test", "teardown": "its teardown"}[when]
        if limit.own:
            taken = None if peak is None or start is None else peak - start
            said = "{} added {} of {} to the {} that were live before".format(what, size_text(taken), limit.scope, size_text(start))
            return self._text(limit, taken, said, item, when)
        return self._text(limit, peak, "{} had {} of {} at once".format(what, size_text(peak), limit.scope), item, when)

    def _text(self, limit: _Limit, value: Optional[int], said: str, item: pytest.Item, step: str) -> Optional[str]:
        if value is None:
            return ("gpupeak: {}: {} was not measured, so the limit of {} counts as broken (is the host recorded? --gpupeak-host)"
                    .format(limit.marker, limit.scope, size_text(limit.size)))
        if value <= limit.size:
            return None
        text = "gpupeak: {}: {}, over the limit of {} by {}".format(limit.marker, said, size_text(limit.size), size_text(value - limit.size))
        return text + "\n" + self._holders(limit, item, step)

    def _holders(self, limit: _Limit, item: pytest.Item, step: str) -> str:
        log = _live.log_path()
        phase = "{} [{}]".format(item.nodeid, step)
        scope = limit.scope.replace(".", "/", 1)
        self.explained += 1
        if log is None or self.explained > _EXPLAINED:
            return "  who held it: " + _command_of(item, step)
        try:
            found = _command.ask("report", "--held", "--json", "--top", "5", "--scope", scope, "--within", phase, "--", log, within=60)
        except _command.GpupeakError as error:
            return "  who held it: {}".format(error)
        moment = found["moments"][0]
        if moment["bytes"] is None:
            return "  who held it: the log does not have this phase yet"
        rows = ["  {:>9}  {}".format(size_text(holder["bytes"]), holder["site"] or "(no stack)") for holder in moment["holders"]]
        if moment["other_bytes"]:
            rows.append("  {:>9}  {} more".format(size_text(moment["other_bytes"]), moment["other_sites"]))
        exact = "" if found["quality"]["exact"] else "; figures are not exact: " + "; ".join(w["message"] for w in found["quality"]["warnings"])
        asked = " (bytes that were asked for; the limit counts usable ones)" if scope == "host/heap" else ""
        return "held at its highest moment{}{}:\n{}".format(asked, exact, "\n".join(rows))


def _command_of(item: pytest.Item, step: str) -> str:
    """What shows that step in the log of the process that ran it, which in xdist is a worker's."""
    kept = item.config.getoption("gpupeak_log") or "GPUPEAK_PYTEST_STARTED" not in os.environ
    command = "gpupeak report --within {} {}".format(
        shlex.quote("{} [{}]".format(item.nodeid, step)), shlex.quote(kept and _live.log_path() or "LOG"))
    return command if kept else command + " (--gpupeak-log FOLDER keeps the log)"


def _failure(text: str) -> pytest.ExceptionInfo[BaseException]:
    try:
        pytest.fail(text, pytrace=False)
    except pytest.fail.Exception:
        return pytest.ExceptionInfo.from_current()


def _properties(step: str, phase: _live.phase) -> List[Tuple[str, int]]:
    found = []
    for scope in phase.scopes():
        figures = phase._figures(scope) if scope.startswith("device:") and "." not in scope or scope in (_HEAP, "managed") else None
        if figures is not None and (figures[1] or scope != "managed"):
            found += [("{}{}.{}.{}".format(_PREFIX, step, scope, name), value)
                      for name, value in zip(("start_bytes", "peak_bytes", "end_bytes"), figures)]
    return found


class _Reporter:
    """In the process that prints."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.figures: Dict[str, Dict[str, Dict[str, _Figures]]] = {}  # test → scope → step
        self.unchecked = 0
        # The first pytest takes it; one that a test runs, in this process or below it, finds nothing to remove.
        self.removed_at_end = os.environ.pop("GPUPEAK_PYTEST_REMOVE", None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found: Dict[str, Dict[str, int]] = {}
        for name, value in report.user_properties:
            self.unchecked += report.when == "setup" and name == _PREFIX + "unchecked"
            if name.startswith("{}{}.".format(_PREFIX, report.when)):
                scope, figure = name[len(_PREFIX) + len(report.when) + 1:].rsplit(".", 1)
                found.setdefault(scope, {})[figure] = value
        for scope, figures in found.items():
            self.figures.setdefault(report.nodeid, {}).setdefault(scope, {})[report.when] = _Figures(
                figures["start_bytes"], figures["peak_bytes"], figures["end_bytes"])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.unchecked:
            terminalreporter.write_line("gpupeak: {} with memory limits ran unchecked; pytest --gpupeak checks them".format(
                "1 test" if self.unchecked == 1 else "{} tests".format(self.unchecked)), yellow=True)
        rows = self.config.getoption("gpupeak_rows")
        if not self.figures or rows == 0 or not (self.config.getoption("gpupeak") or _live.active()):
            return
        scopes = sorted({scope for scopes in self.figures.values() for scope in scopes if scope.startswith("device:")}) + [_HEAP]
        terminalreporter.section("peak memory, by gpupeak")
        for scope in scopes:
            self._write_table(terminalreporter, scope, rows)
        terminalreporter.write_line("test: the most while it ran; +: what of that was not live before; fixtures: what their set-up added; "
                                    "kept: live after the teardown and not before the set-up")
        if self.config.getoption("gpupeak_log"):
            terminalreporter.write_line("logs: {}; `gpupeak report`, `gpupeak report --within 'TEST [call]'`".format(
                self.config.getoption("gpupeak_log")))

    def _write_table(self, out: Any, scope: str, most: int) -> None:
        tests = [(test, figures[scope]) for test, figures in self.figures.items() if scope in figures and "call" in figures[scope]]
        if not tests or not any(steps["call"].peak for _, steps in tests):
            return
        own = scope == _HEAP  # what lies below it is pytest and its modules

        def key(steps: Dict[str, _Figures]) -> int:
            return steps["call"].peak - (steps["call"].start if own else 0)

        tests.sort(key=lambda entry: -key(entry[1]))
        out.write_line("{:>10} {:>10} {:>10} {:>10}  {}".format("test", "+", "fixtures +", "kept", scope))
        for test, steps in tests[:most]:
            call, setup, teardown = steps["call"], steps.get("setup"), steps.get("teardown")
            kept = None if setup is None or teardown is None else teardown.end - setup.start
            out.write_line("{:>10} {:>10} {:>10} {:>10}  {}".format(
                size_text(call.peak), size_text(call.peak - call.start),
                size_text(None if setup is None else setup.peak - setup.start), size_text(kept), test))
        if len(tests) > most:
            out.write_line("{} more".format(len(tests) - most))

    def pytest_unconfigure(self) -> None:
        if self.removed_at_end:
            import shutil
            shutil.rmtree(self.removed_at_end, ignore_errors=True)
