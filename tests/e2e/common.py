"""What the end-to-end and the hazard tests share. argv: LIBGPUPEAK GPUPEAK …"""
import glob
import json
import os
import subprocess
import sys

try:
    import jsonschema
except ImportError:  # Debian: python3-jsonschema
    jsonschema = None

LIBRARY, GPUPEAK = sys.argv[1:3]
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/summary.schema.json")


class Failed(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failed(message)


def environment(folder, preload, **more):
    result = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
    if preload:
        result.update(LD_PRELOAD=LIBRARY, GPUPEAK_OUT=os.path.join(folder, "log.%n.%p.gplog"), GPUPEAK_SUMMARY="off")
        result.update(more)
    return result


def logs(folder):
    return sorted(glob.glob(os.path.join(folder, "*.gplog")))


def report(log):
    """The summary, whose holders add up to each peak and which is as the schema says."""
    done = subprocess.run([GPUPEAK, "report", "--json", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    expect(done.returncode == 0, f"report of {log} gives {done.returncode}: {done.stderr.decode()}")
    summary = json.loads(done.stdout)
    for peak in summary["peaks"]:
        held = sum(h["bytes"] for h in peak["holders"]) + peak["other_bytes"]
        expect(held == peak["bytes"], f"holders of {peak['scope']} sum to {held}, the peak is {peak['bytes']}")
    if jsonschema is not None:
        with open(SCHEMA) as file:
            jsonschema.validate(summary, json.load(file))
    return summary


def expect_nothing_dropped(summary):
    dropped = summary["quality"]["dropped_events"]
    expect(dropped == 0, f"{dropped} events were dropped")
