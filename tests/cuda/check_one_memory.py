"""Whether a device's memory is the host's: read from the driver, shown, and no byte counted twice.

usage: check_one_memory.py integrated|coherent|apart|unknown PRELOAD DRIVER_FOLDER GPUPEAK PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

MIB = 1 << 20
LINEAR, MANAGED, PINNED, HEAP, LAST = 64 * MIB, 32 * MIB, 16 * MIB, 48 * MIB, 4 * MIB
# What the rest of the process moves its resident memory by, between two readings.
NOISE = 8 * MIB


def main():
    memory, preload, driver, gpupeak, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "run.gplog")
        environment = dict(os.environ, LD_LIBRARY_PATH=driver, FAKE_CUDA_COSTS="on", FAKE_CUDA_UNIFIED=memory)
        if memory == "unknown":  # a driver that refuses each question
            environment["FAKE_CUDA_FAIL"] = ",".join(f"cuDeviceGetAttribute:{call}:1" for call in range(1, 9))
        environment.update(LD_PRELOAD=preload, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off")
        subprocess.run([program], env=environment, check=True, timeout=100)

        def said(*words):
            return subprocess.run([gpupeak, *words], check=False, capture_output=True, text=True, timeout=100).stdout
        report, text = json.loads(said("report", "--json", log)), " ".join(said("report", log).split())
        fit = json.loads(said("fit", "--json", "--capacity", "64GiB", log))
    problems = list(check(memory, report, text, fit))
    if problems:
        sys.exit("\n".join(problems))


def check(memory, report, text, fit):
    device = report["devices"][0]
    expected = {"integrated": {"integrated": True, "pageable_access": False, "host_page_tables": False, "concurrent_managed": False},
                "coherent": {"integrated": False, "pageable_access": True, "host_page_tables": True, "concurrent_managed": True},
                "apart": {"integrated": False, "pageable_access": False, "host_page_tables": False, "concurrent_managed": True},
                "unknown": None}[memory]
    if device["memory"] != expected:
        yield f"memory {device['memory']}"
    one = memory == "integrated"
    if ("its memory is the host's" in text) != one:
        yield "the text says otherwise of whose memory it is"
    if ("WHAT NVIDIA-SMI SHOWS" in text) == one:
        yield "nvidia-smi shows nothing where there is one memory"
    if ("works on the host's memory in place" in text) != (memory == "coherent"):
        yield "the text says otherwise of what the device works on"

    # Each byte once: what was registered is heap, and managed memory counts only where it can lie nowhere else.
    total = next(peak for peak in report["peaks"] if peak["scope"] == "total")
    of_kind = {}
    for row in total["holders"]:
        of_kind[row["kind"]] = of_kind.get(row["kind"], 0) + row["bytes"]
    known = {"device.linear": LINEAR + LAST, "host.pinned": PINNED, "device.managed": MANAGED if one else 0, "host.registered": 0}
    for kind, bytes in known.items():
        if of_kind.get(kind, 0) != bytes:
            yield f"total: {kind} {of_kind.get(kind, 0)}, truly {bytes}"
    host = report["metrics"]["host.peak_bytes"]
    # Beside what the program asked for its host memory has small blocks, which come and go.
    if not HEAP + PINNED <= total["bytes"] - LINEAR - LAST - (MANAGED if one else 0) <= host:
        yield f"total {total['bytes']}, with {host} of the host at most"
    if not HEAP + PINNED <= host < HEAP + PINNED + NOISE:
        yield f"host {host}"
    if device["metrics"]["device.peak_bytes"] != LINEAR + LAST or report["metrics"]["device.managed.peak_bytes"] != MANAGED:
        yield "the device's own peak has changed"

    ledger = device["ledger"]
    if ledger["source"] != ("cuMemGetInfo" if one else "nvml"):
        yield f"read by {ledger['source']}"
    last = ledger["at_exit"]
    rows = {row["cause"]: row["bytes"] for row in last["rows"]}
    if last["tracked_bytes"] + sum(rows.values()) != last["used_bytes"]:
        yield "the rows do not add up"
    if rows.get("managed") != MANAGED:
        yield f"managed {rows.get('managed')}"
    if one and not HEAP + PINNED - NOISE <= rows.get("host", 0) <= host:
        yield f"host memory {rows.get('host')} of {host}"
    if not one and "host" in rows:
        yield "host memory on a card of its own"
    if abs(rows["unexplained"]) > (NOISE if one else 0):
        yield f"unexplained {rows['unexplained']}"

    need = fit["devices"][0]
    if one != any("is the host's" in reason for reason in need["no_most"]) or one != (need["most_bytes"] is None):
        yield f"fit: {need['no_most']}"
    if (fit["verdict"] == "fits") == one:
        yield f"fit: {fit['verdict']}"


main()
