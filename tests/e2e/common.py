"""What the end-to-end tests share. argv: LIBGPUPEAK GPUPEAK …"""
import glob
import json
import os
import subprocess
import sys

LIBRARY, GPUPEAK = sys.argv[1:3]


class Failed(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failed(message)


def environment(folder, preload, **more):
    result = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
    if preload:
        result.update(LD_PRELOAD=LIBRARY, GPUPEAK_OUT=os.path.join(folder, "log.%n.%p.gplog"), GPUPEAK_SUMMARY="off",
                      **more)
    return result


def logs(folder):
    return sorted(glob.glob(os.path.join(folder, "*.gplog")))


def report(log):
    done = subprocess.run([GPUPEAK, "report", "--json", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    expect(done.returncode == 0, f"report of {log} gives {done.returncode}: {done.stderr.decode()}")
    return json.loads(done.stdout)


def check_report(summary):
    """Holders add up to each peak, nothing was lost, and the JSON is what the schema says."""
    for peak in summary["peaks"]:
        held = sum(h["bytes"] for h in peak["holders"]) + peak["other_bytes"]
        expect(held == peak["bytes"], f"holders of {peak['scope']} sum to {held}, the peak is {peak['bytes']}")
    expect(summary["quality"]["dropped_events"] == 0, "events were dropped")
    try:
        import jsonschema
    except ImportError:
        return
    schema = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/summary.schema.json")
    with open(schema) as file:
        jsonschema.validate(summary, json.load(file))
