"""pytest-benchmark: peak memory beside the times. Put this into conftest.py; the figures stand in `extra_info` of its JSON.

    gpupeak run -- pytest --benchmark-json bench.json

    def test_matmul(benchmark, memory):
        benchmark(matmul)
"""
import gpupeak
import pytest


@pytest.fixture
def memory(benchmark, request):
    """Bytes: the most that was live, and what of it was not live before. Nothing is added where nothing is recorded."""
    with gpupeak.phase(request.node.nodeid) as phase:
        yield phase
    for scope in phase.scopes():
        if scope == "host.heap" or scope.startswith("device:"):
            benchmark.extra_info[scope + " peak_bytes"] = phase.peak(scope)
            benchmark.extra_info[scope + " added_bytes"] = phase.peak(scope) - phase.start(scope)
