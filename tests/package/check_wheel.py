"""The wheel of an installed gpupeak, by the pip of Pythons at hand, the oldest and the newest: `gpupeak` and `python -m gpupeak` record and report.
And a newcomer's path: README's commands from `pip install` to the test that fails, in a new virtual environment without a network.

usage: check_wheel.py BUILD_FOLDER
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../python"))
from python_log import find_pythons  # noqa: E402

SKIPPED = 77
VERSIONS = ("3.9", "3.11", "3.14", "3.13")  # the oldest, the distribution's, the newest that is here


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, **options).stdout.decode()


def newcomer(wheel, work):
    """README's block, line for line."""
    with open(os.path.join(HERE, "../../README.md"), encoding="utf-8") as file:
        block = re.search(r"```sh\n(pip install gpupeak-\*\.whl pytest\n.*?)```", file.read(), re.S)[1]
    place = os.path.join(work, "newcomer")
    pip = shutil.which("pip") or shutil.which("pip3")
    if pip is None or subprocess.run(["/usr/bin/python3", "-c", "import pytest"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return False
    run("/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages", os.path.join(place, "venv"))
    with open(os.path.join(place, "venv/bin/pip"), "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {pip} --python "{place}/venv/bin/python3" "$@"\n')
    os.chmod(os.path.join(place, "venv/bin/pip"), 0o755)
    shutil.copy(wheel, place)
    env = {"PATH": f"{place}/venv/bin:/usr/bin:/bin", "HOME": place, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
           "PYENV_VERSION": os.environ.get("PYENV_VERSION", "")}
    done = subprocess.run(["bash", "-e", "-c", block], cwd=place, env={k: v for k, v in env.items() if v}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert "limit_host_memory: the test added 30.0 MiB" in done.stdout and "30.0 MiB  test_sort test_memory.py:5" in done.stdout, done.stdout
    return True


def main():
    tried = []
    with tempfile.TemporaryDirectory() as work:
        installed = os.path.join(work, "installed")
        run("cmake", "--install", sys.argv[1], "--prefix", installed, "--strip")
        wheels = []
        for folder in ("first", "again"):
            os.mkdir(os.path.join(work, folder))
            wheel = run(sys.executable, os.path.join(HERE, "../../tools/wheel.py"), installed, "0.1.0", os.path.join(work, folder)).strip()
            with open(wheel, "rb") as file:
                wheels.append(file.read())
        assert wheels[0] == wheels[1], "the same files give another wheel"
        for python in [path for version in VERSIONS for path in find_pythons(version)[:1]]:
            if len(tried) == 3:
                break
            place = os.path.join(work, os.path.basename(python))
            pip = [python, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", place, wheel]
            if subprocess.run(pip, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
                continue  # without pip
            log = os.path.join(work, "a.gplog")
            env = {**os.environ, "PYTHONPATH": place}
            for command in ([os.path.join(place, "bin/gpupeak")], [python, "-m", "gpupeak"]):
                text = run(*command, "run", "-o", log, "--", python, "-c", "print('out')", env=env)
                assert "out" in text and "Peak host heap" in text, text
                report = run(*command, "report", "--json", log, env=env)
                assert '"exact": true' in report and "GP020" not in report, report
            tried.append(run(python, "--version").strip())
        tried += ["README's path to a failing test"] if newcomer(wheel, work) else []
    print(f"{', '.join(tried)}: installed from the wheel, recorded and reported")
    return 0 if tried else SKIPPED


sys.exit(main())
