"""Peak memory as a pytest: each benchmark runs under gpupeak and must keep its limits.

    pytest examples/ci/test_peak_memory.py
"""
import subprocess
import sys

import pytest

BENCHMARKS = {
    "bytearray": ([sys.executable, "-c", "data = bytearray(50_000_000)"], ["host.peak_bytes=100MiB"]),
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_peak_memory(name, tmp_path):
    command, limits = BENCHMARKS[name]
    log = tmp_path / f"{name}.gplog"
    subprocess.run(["gpupeak", "run", "-q", "-o", log, "--", *command], check=True)
    arguments = [word for limit in limits for word in ("--max", limit)]
    check = subprocess.run(["gpupeak", "check", log, *arguments], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr
