"""The wheel of an installed gpupeak, by the pip of Pythons at hand, the oldest and the newest: `gpupeak` and `python -m gpupeak` record and report.

usage: check_wheel.py BUILD_FOLDER
"""
import os
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
    print(f"{', '.join(tried)}: installed from the wheel, recorded and reported")
    return 0 if tried else SKIPPED


sys.exit(main())
