#!/usr/bin/env python3
"""Attaches to a PyTorch training on the GPU and leaves it again, several times: its losses and exit code stay what they are, and what it
took meanwhile is what PyTorch's counters say, to the byte.

usage: attach.py PREFIX [ROUNDS]   (PREFIX: where gpupeak is installed)
"""
import json
import os
import subprocess
import sys
import tempfile

gpupeak = os.path.join(sys.argv[1], "bin/gpupeak")
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
TRAINING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attach_torch.py")
MIB = 1 << 20


def touch(folder, name):
    open(os.path.join(folder, name), "w", encoding="utf-8").close()


def told(*words):
    done = subprocess.run([gpupeak, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, (words, done)
    return done


def train(attach):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        with subprocess.Popen([sys.executable, TRAINING, folder], stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout.readline() == "ready\n"
            if attach:
                print("  ", told("attach", "-o", log, str(program.pid)).stderr.strip())
            touch(folder, "attached")
            grown = int(program.stdout.readline().split()[1])
            found = None
            if attach:
                print("  ", told("detach", str(program.pid)).stderr.strip())
                found = json.loads(told("report", "--json", log).stdout)
                print("   " + "\n   ".join(told("report", log).stdout.splitlines()[:8]))
            touch(folder, "detached")
            losses = program.stdout.read()
        return program.returncode, losses, grown, found


def main():
    code, losses, grown, _ = train(False)
    assert code == 3 and losses.startswith("losses ") and grown >= 600 * MIB, (code, losses[:80], grown)
    for number in range(rounds):
        attached = train(True)
        assert attached[0] == code, f"exit code {attached[0]}"
        assert attached[1] == losses, "other losses"
        peak = attached[3]["metrics"]["device.peak_bytes"]
        print(f"round {number}: grown by {attached[2]:,} bytes by PyTorch, peak since then {peak:,}: "
              f"{'equal' if peak == attached[2] else 'DIFFERENT'}", flush=True)
        assert peak == attached[2]
    print(f"attach: {rounds} of {rounds} rounds as by itself")


main()
