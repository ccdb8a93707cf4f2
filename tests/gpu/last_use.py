"""Whether last uses are seen: last_use.py GPUPEAK FOLDER [--ort ONNXRUNTIME_FOLDER] [PART …].

operations  Of each operation of last_use_ops.py all tensors, inputs and outputs, must have been seen used while it ran, and not after it.
trainings   A training that keeps activations by mistake: what `whatif --free-at-last-use` says is compared with the program mended.
costs       What recording costs an eager ResNet-50, in turns of a tenth of a second: alone, under gpupeak, under gpupeak with --last-use.
jax         As `operations`, of last_use_jax.py; the results must be those of a run without gpupeak, to the bit.
ort         Each block of ONNX Runtime's arena must have been seen used (last_use_ort.py).
Without a PART all that can be done here. Prints a Markdown table a part; exit code 1: something was not seen, or an answer was wrong.
"""
import argparse
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys

import last_use_ort

HERE = os.path.dirname(os.path.abspath(__file__))
SLACK_NS = 100_000


def run(gpupeak, log, arguments, *options, **environment):
    command = [gpupeak, "run", "--quiet", *options, "-o", log, "--", *arguments] if gpupeak else arguments
    return subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, **environment}, check=True).stdout.decode()


def start_ns(log):
    with open(log, "rb") as file:
        return int.from_bytes(file.read(64)[56:], "little")


def uses_of(gpupeak, log):
    """{address: [(ns of the record, count, first ns, last ns)]} of blocks of pools, and of the driver's."""
    start = start_ns(log)
    ns = lambda text: start + int(text.replace(".", ""))
    uses, address_of = {}, {}
    dump = subprocess.Popen([gpupeak, "export", "events", log], stdout=subprocess.PIPE, text=True)
    for line in dump.stdout:
        if " device_alloc " in line:
            match = re.search(r"id (\d+) .*?(0x[0-9a-f]+) bytes", line)
            address_of[match[1]] = match[2]
        block = r"(?:arena_free \d+ (0x[0-9a-f]+)[^+]* used|used (?:arena \d+ (0x[0-9a-f]+)|id (\d+)))"
        match = re.match(r"\+([\d.]+) .* " + block + r" count (\d+)(?: first \+([\d.]+) last \+([\d.]+))?", line)
        if match is None:
            continue
        address = int(match[2] or match[3] or address_of.get(match[4], "0"), 16)
        first, last = (ns(match[6]), ns(match[7])) if match[6] else (0, 0)
        uses.setdefault(address, []).append((ns(match[1]), int(match[5]), first, last))
    return uses


def operations(gpupeak, folder, program="last_use_ops.py", **environment):
    """Whether all was seen, and the operations."""
    log = os.path.join(folder, program + ".gplog")
    lines = run(gpupeak, log, [sys.executable, os.path.join(HERE, program)], "--last-use", "--host", "off", **environment).splitlines()
    uses, wrong, tensors, done = uses_of(gpupeak, log), [], 0, 0
    told = [json.loads(line) for line in lines]
    print(f"\n| operation of {program} | arrays | not seen |\n|---|---|---|")
    for operation in told:
        if "failed" in operation:
            print(f"| {operation['operation']} | – | {operation['failed']} |")
            continue
        missed = []
        for address in operation["addresses"]:
            # The block's next record after the operation is the one of its end.
            ended = [use for use in uses.get(address, []) if use[0] >= operation["to_ns"]]
            last = ended[0][3] if ended else 0
            if not operation["from_ns"] - SLACK_NS <= last <= operation["to_ns"] + SLACK_NS:
                missed.append((address, last - operation["from_ns"] if last else None))
        done += 1
        tensors += len(operation["addresses"])
        if missed:
            wrong.append(operation["operation"])
            print(f"| {operation['operation']} | {len(operation['addresses'])} | {len(missed)}: {missed[:3]} |")
    print(f"\n{done} operations, {tensors} arrays; all seen in {done - len(wrong)}; wrong: {wrong or 'none'}")
    return not wrong and done > 0, told


def jax_operations(gpupeak, folder):
    """Twice without gpupeak, since some results are not the same twice; nothing is tuned by time, so that they mostly are."""
    program, environment = "last_use_jax.py", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    flags = {"XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"}
    known = subprocess.run([sys.executable, "-c", "import jax; jax.devices()"], env={**os.environ, **flags}, capture_output=True, check=False)
    if known.returncode == 0:
        environment |= flags  # this release has them
    fine, told = operations(gpupeak, folder, program, **environment)
    digests = [{o["operation"]: o.get("digest") for o in map(json.loads, run(None, None, [sys.executable, os.path.join(HERE, program)],
                                                                             **environment).splitlines())} for _ in range(2)]
    alike = [o for o in told if "digest" in o and digests[0].get(o["operation"]) == digests[1].get(o["operation"])]
    differ = [o["operation"] for o in alike if o["digest"] != digests[0][o["operation"]]]
    vary = [o["operation"] for o in told if "digest" in o and o not in alike]
    print(f"results equal to those without gpupeak: {len(alike) - len(differ)} of {len(alike)}; differ: {differ or 'none'}; "
          f"not the same twice without it: {vary or 'none'}")
    return fine and not differ and len(alike) > 10


def reserved_of(output):
    return int(re.search(r" reserved (\d+)", output)[1])


def trainings(gpupeak, folder):
    """What the pool reserves at most, predicted and with the program mended. `grads` is mended by more than freeing: the
    gradients are not cleared any more, which was a use."""
    fine = True
    print("\n| program | the pool, recorded | by whatif --free-at-last-use | mended | |\n|---|---|---|---|---|")
    for case in ("kept", "weights", "grads"):
        program = [sys.executable, os.path.join(HERE, "last_use_training.py"), case]
        log = os.path.join(folder, f"{case}.gplog")
        before = reserved_of(run(gpupeak, log, program, "--last-use", "--host", "off"))
        mended = reserved_of(run(None, None, [*program, "mended"]))
        answer = json.loads(subprocess.run([gpupeak, "whatif", "--json", "--top", "100000", "--free-at-last-use", log], stdout=subprocess.PIPE, check=True).stdout)
        whole = answer["sums"][0]
        # What the libraries take from the driver themselves is in no counter of PyTorch's.
        beside = whole["before"]["peak_bytes"] - before
        least, most = whole["least_bytes"] - beside, whole["most_bytes"] - beside
        right = least <= mended <= most if case != "grads" else mended <= most
        fine &= right
        print(f"| {case} | {before:,} | {least:,} to {most:,} | {mended:,} | {'' if right else '**wrong**'} |")
        print(subprocess.run([gpupeak, "report", "--last-use", "--top", "4", log], stdout=subprocess.PIPE, check=True).stdout.decode(), file=sys.stderr)
    return fine


class Turns:
    """A program of last_use_cost.py that waits for its turn."""

    def __init__(self, gpupeak, log, *options):
        command = [gpupeak, "run", "--quiet", *options, "-o", log, "--"] if gpupeak else []
        self.process = subprocess.Popen([*command, sys.executable, os.path.join(HERE, "last_use_cost.py")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.process.stdout.readline() == "ready\n"

    def step_ms(self, name, count):
        self.process.stdin.write(f"{name} {count}\n")
        return float(self.process.stdout.readline()) / count * 1e3

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def costs(gpupeak, folder):
    """Three programs side by side, which take turns of some steps: what disturbs one disturbs the others as well."""
    programs = {"alone": Turns(None, None), "gpupeak": Turns(gpupeak, os.path.join(folder, "plain.gplog")),
                "with --last-use": Turns(gpupeak, os.path.join(folder, "uses.gplog"), "--last-use")}
    print("\n| ResNet-50, ms of a step (median of 80 turns; quarters) | alone | gpupeak | with --last-use | last use adds, by turn |\n|---|---|---|---|---|")
    for name, count in (("infer", 25), ("train", 8)):
        figures = {way: [] for way in programs}
        for turn in range(90):
            order = list(programs) if turn % 2 == 0 else list(programs)[::-1]
            for way in order:
                figures[way].append(programs[way].step_ms(name, count))
        figures = {way: ms[10:] for way, ms in figures.items()}
        cells = ["{1:.3f} ({0:.3f} … {2:.3f})".format(*statistics.quantiles(ms, n=4)) for ms in figures.values()]
        low, middle, high = statistics.quantiles([uses / plain - 1 for uses, plain in zip(figures["with --last-use"], figures["gpupeak"])], n=4)
        print(f"| {name} | {' | '.join(cells)} | {middle:+.2%} ({low:+.2%} … {high:+.2%}) |")
    for program in programs.values():
        program.end()
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpupeak")
    parser.add_argument("folder")
    parser.add_argument("--ort")
    parser.add_argument("parts", nargs="*", metavar="PART")
    asked = parser.parse_args()
    gpupeak, folder = os.path.abspath(asked.gpupeak), os.path.abspath(asked.folder)
    os.makedirs(folder, exist_ok=True)
    has = {name: importlib.util.find_spec(name) is not None for name in ("torch", "jax")}
    parts = {"operations": (has["torch"], lambda: operations(gpupeak, folder)[0]),
             "trainings": (has["torch"], lambda: trainings(gpupeak, folder)),
             "jax": (has["jax"], lambda: jax_operations(gpupeak, folder)),
             "ort": (asked.ort, lambda: last_use_ort.models(gpupeak, folder, os.path.abspath(asked.ort))),
             "costs": (has["torch"], lambda: costs(gpupeak, folder))}
    if unknown := set(asked.parts) - set(parts):
        parser.error(f"no part {', '.join(sorted(unknown))}")
    results = [work() for name, (can, work) in parts.items() if (name in asked.parts if asked.parts else can)]
    sys.exit(0 if all(results) else 1)


main()
