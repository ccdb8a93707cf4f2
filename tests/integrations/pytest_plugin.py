"""The pytest plugin, with Debian's pytest and xdist: a suite on the simulated driver whose sizes are known. Limits are kept and broken, a
broken one says who held it; the table, JUnit's properties and the log have the same figures; workers of xdist; and a pytest that is
not recorded says what it did not check.

usage: pytest_plugin.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER SOURCE limits|xdist|unrecorded|mistakes|again
"""
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, Skipped, environment, expect, run_checks  # noqa: E402
from driver_calls import DRIVER_CALLS  # noqa: E402

DRIVER, SOURCE, CASE = sys.argv[3:6]
MIB = 1 << 20

SUITE = """
import pytest
from gpu import MIB, alloc, free

@pytest.fixture
def model():
    at = alloc(100 * MIB)
    yield at
    free(at)

@pytest.fixture
def greedy():
    free(alloc(300 * MIB))

def work():
    free(alloc(30 * MIB))

@pytest.mark.limit_device_memory("130MiB")
def test_within(model):
    work()

@pytest.mark.limit_device_memory("129 MiB")
def test_too_much(model):
    work()

@pytest.mark.limit_device_memory("30MiB", own=True)
def test_own(model):
    work()

@pytest.mark.limit_device_memory(200 * MIB)
def test_greedy_fixture(greedy):
    raise AssertionError("not reached")

@pytest.mark.limit_host_memory("24MiB")
def test_heap():
    data = bytearray(30 << 20)

@pytest.mark.limit_host_memory("40MiB")
def test_heap_fits():
    data = bytearray(30 << 20)

@pytest.mark.limit_growth("1MiB", scope="device:0")
def test_leaks():
    alloc(2 * MIB)

@pytest.mark.limit_growth("1MiB")
def test_kept_objects():
    global kept
    kept = [object() for _ in range(200000)]

@pytest.mark.limit_device_memory("10MiB")
def test_fails_anyway():
    assert False

@pytest.mark.limit_device_memory("1MiB", device=1)
def test_other_device():
    free(alloc(5 * MIB))

def test_unmarked():
    free(alloc(250 * MIB))
"""
PASS = {"test_within", "test_own", "test_heap_fits", "test_other_device", "test_unmarked"}
FAIL = {"test_too_much": "call", "test_greedy_fixture": "setup", "test_heap": "call", "test_leaks": "teardown", "test_kept_objects": "teardown",
        "test_fails_anyway": "call"}


def temporary(folder):
    """A folder of this test's own for what the plugin keeps for a while: other tests use the plugin at the same time."""
    path = os.path.join(folder, "temporary")
    os.makedirs(path, exist_ok=True)
    return path


def run_pytest(folder, *arguments, suite=SUITE, **more):
    for name, text in (("gpu.py", DRIVER_CALLS), ("test_suite.py", suite)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    env = {**environment(folder, False), "PYTHONPATH": os.path.join(SOURCE, "tools/python"), "LD_LIBRARY_PATH": DRIVER, "GPUPEAK_COMMAND": GPUPEAK,
           "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200", "TMPDIR": temporary(folder), **more}
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "gpupeak.pytest_plugin", "-p", "no:cacheprovider", *arguments], cwd=folder, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout


def outcomes(path):
    """Test → (the step's message or None, its properties), of a JUnit file."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        message = next((fault.text or fault.get("message") for kind in ("failure", "error") for fault in case.iter(kind)), None)
        properties = {p.get("name"): int(p.get("value")) for p in case.iter("property")}
        before = found.get(case.get("name"), (None, {}))
        found[case.get("name")] = (before[0] or message, {**before[1], **properties})
    return found


def check_outcomes(junit, text):
    found = outcomes(junit)
    expect(set(found) == PASS | set(FAIL), f"{set(found)}\n{text}")
    for name, (message, _) in found.items():
        expect((message is not None) == (name in FAIL), f"{name}: {message}\n{text}")
    said = {name: message for name, (message, _) in found.items()}
    expect("the test had 130 MiB of device:0 at once, over the limit of 129 MiB by 1.00 MiB" in said["test_too_much"], said["test_too_much"])
    expect(re.search(r"  100 MiB  alloc gpu.py:\d+ ← model test_suite.py", said["test_too_much"]), said["test_too_much"])
    expect(re.search(r" 30.0 MiB  alloc gpu.py:\d+ ← work test_suite.py", said["test_too_much"]), said["test_too_much"])
    expect("its fixtures had 300 MiB" in said["test_greedy_fixture"], said["test_greedy_fixture"])
    expect(re.search(r"added 30.\d MiB of host.heap.* over the limit of 24.0 MiB", said["test_heap"]), said["test_heap"])
    expect(re.search(r" 30.0 MiB  test_heap test_suite.py", said["test_heap"]), said["test_heap"])
    expect("2.00 MiB of device:0 are left" in said["test_leaks"] and "← test_leaks test_suite.py" in said["test_leaks"], said["test_leaks"])
    expect("assert False" in said["test_fails_anyway"], said["test_fails_anyway"])
    expect("of host.heap are left" in said["test_kept_objects"], said["test_kept_objects"])
    figures = found["test_within"][1]
    start = figures["gpupeak.setup.device:0.start_bytes"]
    for name, value in {"setup.device:0.peak_bytes": 100, "call.device:0.start_bytes": 100, "call.device:0.peak_bytes": 130,
                        "call.device:0.end_bytes": 100, "teardown.device:0.end_bytes": 0}.items():
        expect(figures["gpupeak." + name] - start == value * MIB, f"{name}: {figures}")
    for line in (r" 130 MiB +30.0 MiB +100 MiB +0 B  test_suite.py::test_within", r" 250 MiB +0 B +0 B  test_suite.py::test_unmarked"):
        expect(re.search(line, text), f"no row {line} in\n{text}")


def check_hints(folder, text):
    """Under each failure a command shows the test: in the log of the worker that ran it."""
    hints = re.findall(r"^more: (gpupeak report --within '(test_suite.py::(\w+) \[(\w+)\])' (\S+))$", text, re.M)
    expect({name: step for _, _, name, step, _ in hints} == FAIL, f"{hints}\n{text}")
    for command, _, name, step, log in hints:
        expect(os.path.dirname(log) == os.path.join(folder, "logs"), command)
        done = subprocess.run(command, cwd=folder, env={**environment(folder, False), "PATH": f"{os.path.dirname(GPUPEAK)}:{os.environ['PATH']}"},
                              shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        expect(done.returncode == 0 and f"{name} [{step}]" in done.stdout, f"{command}\n{done.stdout}")


def check_log(folder):
    """The figures of the tests' phases are those of the log."""
    found = {}
    for log in glob.glob(os.path.join(folder, "*.gplog")):
        for phase in json.loads(subprocess.run([GPUPEAK, "report", "--json", log], stdout=subprocess.PIPE, check=True).stdout)["phases"]:
            found[phase["name"]] = phase["metrics"]["device.peak_bytes"] - phase["metrics"]["device.start_bytes"]
    for name, value in {"test_within [setup]": 100, "test_within [call]": 30, "test_unmarked [call]": 250}.items():
        expect(found.get("test_suite.py::" + name) == value * MIB, f"{name}: {found}")


def check_limits(folder):
    code, text = run_pytest(folder, "--gpupeak", "--gpupeak-log", "logs", "--junitxml", "junit.xml", "-o", "junit_family=xunit1")
    expect(code == 1, f"{code}\n{text}")
    check_outcomes(os.path.join(folder, "junit.xml"), text)
    expect(text.count("gpupeak: limit_device_memory: its") == 1, f"a fixture's limit is told once\n{text}")
    check_hints(folder, text)
    check_log(os.path.join(folder, "logs"))


def xdist_is_here():
    return importlib.util.find_spec("xdist") is not None


def check_xdist(folder):
    if not xdist_is_here():
        raise Skipped("no pytest-xdist (Debian: python3-pytest-xdist)")
    code, text = run_pytest(folder, "--gpupeak", "--gpupeak-log", "logs", "-n", "2", "--junitxml", "junit.xml", "-o", "junit_family=xunit1")
    expect(code == 1 and "gw0" in text + "gw0", f"{code}\n{text}")
    check_outcomes(os.path.join(folder, "junit.xml"), text)
    expect(len(glob.glob(os.path.join(folder, "logs", "*.gplog"))) == 3, f"{os.listdir(os.path.join(folder, 'logs'))}")
    check_hints(folder, text)
    check_log(os.path.join(folder, "logs"))


def check_unrecorded(folder):
    code, text = run_pytest(folder, "-k", "too_much or heap or leaks or unmarked")
    expect(code == 0 and "4 tests with memory limits ran unchecked; pytest --gpupeak checks them" in text, f"{code}\n{text}")
    code, text = run_pytest(folder, "-k", "too_much or leaks", "-n", "1") if xdist_is_here() else (0, "2 tests with memory limits ran unchecked")
    expect(code == 0 and "2 tests with memory limits ran unchecked" in text, f"{code}\n{text}")
    code, text = run_pytest(folder, "-k", "unmarked")
    expect(code == 0 and "unchecked" not in text and "gpupeak" not in text.split("test session starts")[1].split("plugins")[-1].split("\n", 1)[1],
           f"{code}\n{text}")
    code, text = run_pytest(folder, "--gpupeak", "--gpupeak-rows", "1", "-k", "within or own or unmarked")
    expect(code == 0 and re.search(r"test_unmarked\n2 more", text), f"{code}\n{text}")
    kept = [name for name in os.listdir(temporary(folder)) if name.startswith("gpupeak")]
    expect(not kept, f"logs that nobody asked for are kept: {kept}")
    code, text = run_pytest(folder, "--gpupeak", "-k", "too_much")
    expect("more: gpupeak report --within 'test_suite.py::test_too_much [call]' LOG (--gpupeak-log FOLDER keeps the log)" in text, text)
    done = subprocess.run([GPUPEAK, "run", "-q", "-o", os.path.join(folder, "x.gplog"), "--", sys.executable, "-m", "pytest", "-p",
                           "gpupeak.pytest_plugin", "-k", "too_much"], cwd=folder, stdout=subprocess.PIPE, text=True, check=False,
                          env={**environment(folder, False), "PYTHONPATH": os.path.join(SOURCE, "tools/python"), "LD_LIBRARY_PATH": DRIVER,
                               "GPUPEAK_COMMAND": GPUPEAK})
    expect(done.returncode == 1 and "over the limit of 129 MiB" in done.stdout, f"below run limits hold, too: {done.returncode}\n{done.stdout}")


def check_mistakes(folder):
    for marker, said in (('limit_device_memory("8G")', "'8G' is no size"), ('limit_growth("1MiB", scope="gpu")', "'gpu' is not counted"),
                         ("limit_host_memory()", "missing 1 required"), ('limit_device_memory("1MiB", gpu=1)', "unexpected keyword")):
        suite = f"import pytest\n@pytest.mark.{marker}\ndef test_one(): pass\n"
        for options in ([], ["--gpupeak"]):
            code, text = run_pytest(folder, *options, suite=suite)
            expect(code == 4 and said in text and "test_suite.py::test_one" in text, f"{marker} {options}: {code}\n{text}")
    code, text = run_pytest(folder, "--gpupeak", GPUPEAK_LIBRARY="/nowhere/libgpupeak.so")
    expect(code == 4 and "nothing is recorded" in text, f"{code}\n{text}")
    code, text = run_pytest(folder, "--gpupeak", "--gpupeak-host", "off", "-k", "heap_fits or within")
    expect(code == 1 and "was not measured, so the limit of 40.0 MiB counts as broken" in text and "1 passed" in text, f"{code}\n{text}")


TRIED_AGAIN = """
import pytest
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):  # as pytest-rerunfailures does it
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in range(3):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        print("attempt", attempt, [report.outcome for report in reports])
        if not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
ANY_OUTCOME = """
import pytest
pytest_plugins = "pytester"

@pytest.mark.limit_host_memory("1MiB")
def test_big():
    bytearray(30 << 20)

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_host_memory("1MiB")
def test_known_to_be_big():
    bytearray(30 << 20)

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_host_memory("100MiB")
def test_fits_after_all():
    bytearray(30 << 20)
"""
INNER = """
import os
pytest_plugins = "pytester"

def test_inner(pytester):
    folder = os.path.dirname(os.environ["GPUPEAK_OUT"])
    pytester.makepyfile("def test_one(): pass")
    pytester.runpytest_inprocess("-p", "gpupeak.pytest_plugin")
    assert os.path.exists(folder)
    pytester.runpytest_subprocess("-p", "gpupeak.pytest_plugin")
    assert os.path.exists(folder)
"""


def check_again(folder):
    """A broken limit fails each try of a test; it is the failure that xfail waits for; a pytest within a test removes no logs."""
    with open(os.path.join(folder, "conftest.py"), "w", encoding="utf-8") as file:
        file.write(TRIED_AGAIN)
    code, text = run_pytest(folder, "--gpupeak", "-s", "-rA", suite=ANY_OUTCOME)
    expect(code == 1 and "attempt 2 ['passed', 'failed', 'passed']" in text, f"{code}\n{text}")
    for line in ("FAILED test_suite.py::test_big", "XFAIL test_suite.py::test_known_to_be_big", "FAILED test_suite.py::test_fits_after_all"):
        expect(line in text, f"no {line}\n{text}")
    os.remove(os.path.join(folder, "conftest.py"))
    code, text = run_pytest(folder, "--gpupeak", suite=INNER)
    expect(code == 0, f"{code}\n{text}")
    kept = [name for name in os.listdir(temporary(folder)) if name.startswith("gpupeak")]
    expect(not kept, f"logs that nobody asked for are kept: {kept}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"limits": check_limits, "xdist": check_xdist, "unrecorded": check_unrecorded, "mistakes": check_mistakes,
         "again": check_again}[CASE](folder)


run_checks(main)
