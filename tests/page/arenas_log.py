"""Logs of the stand-in pools for the tests of the page, and what their pools had at some instants: as `gpupeak arenas --at` says,
after that was compared with what the allocators' own ledgers said then."""
import json
import os
import subprocess


class PoolRun:
    """A client under the recorder. `words`: behind the truth's path."""

    def __init__(self, gpupeak, folder, preload, driver, command, **environment):
        self.gpupeak = gpupeak
        self.log, truth = os.path.join(folder, "pools.gplog"), os.path.join(folder, "truth")
        command = [truth if word == "TRUTH" else word for word in command]
        subprocess.run(command, check=True, timeout=100, env=dict(
            os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=driver, GPUPEAK_OUT=self.log, GPUPEAK_SUMMARY="off",
            GPUPEAK_STAMP_ALL="1", FAKE_CUDA_DEVICES="2", **environment))
        with open(truth, encoding="ascii") as file:
            self.truth = [line.split() for line in file if line.startswith("mark ")]

    def view(self, at):
        done = subprocess.run([self.gpupeak, "pools", self.log, f"--at={at}", "--json"], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    def expected(self, ns):
        """Of each pool at this time its figures, blocks and holes."""
        view = self.view(f"+{ns}ns")
        return {"ns": ns, "pools": [pool_of(pool) for pool in view["pools"] if pool["peak"]["in_use_bytes"] > 0]}

    def at_marks(self, count, ledger):
        """At so many marks. ledger(lines): what the allocators said last, as {pool's text: (in use, reserved)}."""
        times = {mark["name"]: mark["time_ns"] for mark in self.view("end")["marks"]}
        told = [i for i, line in enumerate(self.truth) if line[1] in times]
        instants = []
        for at in (told[len(told) * part // count] for part in range(1, count)):
            instant = self.expected(times[self.truth[at][1]])
            for text, (in_use, reserved) in ledger(self.truth[:at + 1]).items():
                said = [(pool["in_use"], pool["reserved"]) for pool in instant["pools"] if pool["text"].startswith(text)]
                assert (sum(s[0] for s in said), sum(s[1] for s in said)) == (in_use, reserved), (self.truth[at], said)
            instants.append(instant)
        return instants


def pool_of(pool):
    place = f" on GPU {pool['device']}" if "device" in pool else " on the host"
    blocks = sorted((b["address"], b["bytes"]) for b in pool["blocks"])
    holes = []
    for segment in pool["segments"]:
        at, end = segment["address"], segment["address"] + segment["bytes"]
        for address, size in blocks:
            if at <= address < end:
                if address > at:
                    holes.append(at)
                at = address + size
        if at < end:
            holes.append(at)
    return {"text": pool["name"] + place, "in_use": pool["in_use_bytes"], "idle": pool["idle_bytes"], "reserved": pool["reserved_bytes"],
            "blocks": [address for address, _ in blocks], "holes": holes}


def ledger_of_torch(lines):
    """mark NAME DEVICE IN_USE RESERVED"""
    return {f"PyTorch on GPU {line[2]}": (int(line[3]), int(line[4])) for line in lines}


def ledger_of_ort(lines):
    """mark NAME IN_USE RESERVED, of all arenas together"""
    return {"ONNX Runtime": (int(lines[-1][2]), int(lines[-1][3]))}


def page_data(page):
    with open(page, encoding="utf-8") as file:
        return json.loads(file.read().split('id="data">')[1].split("</script>")[0])


def recorded_times(page, count):
    """Of the instants that the page has some that no other is near."""
    times, ns = [], 0
    for further in page_data(page)["runs"][0]["pools"]["times"]:
        ns += further
        times.append(ns)
    alone = [ns for i, ns in enumerate(times) if i > 0 and ns - times[i - 1] > 2000 and (i + 1 == len(times) or times[i + 1] - ns > 2000)]
    return [alone[(len(alone) - 1) * part // (count - 1)] for part in range(count)]


def write_wrong(page, wrong):
    """The page with one byte more in each block, which it must find out by itself."""
    with open(page, encoding="utf-8") as file:
        before, rest = file.read().split('id="data">')
    text, after = rest.split("</script>", 1)
    data = json.loads(text)
    blocks = data["runs"][0]["pools"]["blocks"]
    blocks[2::6] = [size + 1 for size in blocks[2::6]]
    with open(wrong, "w", encoding="utf-8") as file:
        file.write(before + 'id="data">' + json.dumps(data).replace("<", "\\u003c") + "</script>" + after)
