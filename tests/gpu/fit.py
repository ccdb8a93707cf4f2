#!/usr/bin/env python3
"""`gpupeak fit` and `gpupeak sweep` on a real GPU: what they say fits is tried, with a second process holding the rest of the card.

usage: fit.py GPUPEAK [--budget SECONDS] [--keep NAME] [--onnxruntime FOLDER] [PROGRAM …]
       (GPUPEAK: bin/gpupeak of an installed build; no network is used)

PROGRAM: resnet50 (training), transformer (inference), driver (cuMemAlloc alone, without PyTorch), vgg19 (onnxruntime_perf_test with the
CUDA provider, in FOLDER as for ort_arenas.py; not one of the default). Of each, `gpupeak sweep` records four
batches with the whole card free, and for three capacities `sweep --verify` records what it predicts and the next one. Then, with the
rest of the card held: the largest batch that it says fits must run, and two steps above it must not (so it is never too large and at
most one step too small). And for ten capacities around the bounds of `gpupeak fit` for one of the logs: what "fits" must run, what
"does not fit" must not. Prints Markdown tables and a last line; exit code 1 if any is wrong. What the budget leaves no time for is
said, and is not counted. --keep: all logs, in NAME.tar.gz.
"""
import concurrent.futures
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import onnx_batch

MIB = 1 << 20
OUT_OF_MEMORY = 3
SIMULATED = "FIT_SIMULATED" in os.environ  # on the simulated driver, whose processes know nothing of each other
STEPS = {"resnet50": 16, "transformer": 64, "driver": 8, "vgg19": 16}
PLACES = (5.4, 6.5, 7.7)  # capacities: what the curve says of so many steps
began = time.monotonic()


# ---- the programs -----------------------------------------------------------------------------------------------------
def resnet50(torch):
    """As torchvision's, which may not be here."""
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, inside, width, stride):
            super().__init__()
            self.way = nn.Sequential(nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                     nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                     nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
            self.past = None
            if stride != 1 or inside != 4 * width:
                self.past = nn.Sequential(nn.Conv2d(inside, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
            self.last = nn.ReLU(inplace=True)

        def forward(self, x):
            return self.last(self.way(x) + (x if self.past is None else self.past(x)))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


def with_torch(name, batch):
    import torch

    torch.manual_seed(0)
    try:
        if name == "resnet50":
            model = resnet50(torch).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
            for _ in range(2):
                optimizer.zero_grad()
                images = torch.randn(batch, 3, 224, 224, device="cuda")
                torch.nn.functional.cross_entropy(model(images), torch.zeros(batch, dtype=torch.long, device="cuda")).backward()
                optimizer.step()
        else:
            layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
            model = torch.nn.TransformerEncoder(layer, 6).cuda().eval()
            with torch.no_grad():
                for _ in range(2):
                    model(torch.randn(batch, 256, 1024, device="cuda"))
        torch.cuda.synchronize()
    except RuntimeError as error:  # torch.OutOfMemoryError is one; cuBLAS and cuDNN have their own words
        words = str(error).lower()
        if not any(w in words for w in ("out of memory", "alloc_failed", "cublas_status_not_initialized", "internal_error")):
            raise
        print(error, file=sys.stderr)
        return OUT_OF_MEMORY
    return 0


def driver_library():
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuMemAlloc_v2.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t]
    cuda.cuMemFree_v2.argtypes = [ctypes.c_uint64]
    context = ctypes.c_void_p()
    code = cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context)
    return cuda, code


def with_driver(batch):
    cuda, code = driver_library()
    if code != 0:
        return OUT_OF_MEMORY if code == 2 else 1
    for _ in range(2):
        blocks = []
        for size in (700 * MIB, batch * 90 * MIB + 1, batch * 10 * MIB):
            at = ctypes.c_uint64()
            code = cuda.cuMemAlloc_v2(ctypes.byref(at), size)
            if code != 0:
                print("cuMemAlloc: out of memory", file=sys.stderr)
                return OUT_OF_MEMORY if code == 2 else 1
            blocks.append(at.value)
        for at in blocks:
            cuda.cuMemFree_v2(at)
    return 0


class OnnxRuntime:
    """VGG-19 by perf_test, its batch a free dimension."""
    folder = None

    @classmethod
    def use(cls, folder, work):
        cls.folder, cls.model = os.path.abspath(folder), os.path.join(work, "vgg19.onnx")
        onnx_batch.with_free_batch(os.path.join(cls.folder, "models", "light_vgg19.onnx"), cls.model)

    @classmethod
    def command(cls, batch):
        return [os.path.join(cls.folder, "onnxruntime_perf_test"), "-e", "cuda", "-r", "2", "-I", "-m", "times", "-f", f"N:{batch}",
                cls.model]

    @classmethod
    def runs(cls, batch, environment):
        run = subprocess.run(cls.command(batch), env=environment, capture_output=True, text=True, timeout=100)
        said = (run.stdout + run.stderr).lower()
        if run.returncode != 0 and not any(w in said for w in ("out of memory", "failed to allocate memory", "alloc_failed", "bad_alloc")):
            print(f"perf_test: {run.returncode}: {said[-600:]}", file=sys.stderr)
            return None
        return run.returncode == 0


def command_of(name, batch):
    return OnnxRuntime.command(batch) if name == "vgg19" else [sys.executable, os.path.abspath(__file__), "client", name, str(batch)]


def client(name, batch):
    return with_driver(batch) if name == "driver" else with_torch(name, batch)


def fork_server():
    """Imports torch once; each line "NAME BATCH" is run by a forked child that makes its own context. Answers its exit code."""
    import torch  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        name, batch = line.split()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                code = client(name, int(batch))
            except BaseException as error:  # noqa: B036
                print(f"{name} {batch}: {error!r}", file=sys.stderr)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def hold():
    """The second process: each line is a number of bytes that are to be free. Answers how many are."""
    cuda, code = driver_library()
    assert code == 0, code

    def free_bytes():
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
        return free.value

    held = []
    for line in sys.stdin:
        for at in held:
            cuda.cuMemFree_v2(at)
        held.clear()
        wanted = int(line)
        calm = 0
        for _ in range(150):  # what an ended process had may be on its way back
            rest = free_bytes() - wanted
            calm = calm + 1 if 0 <= rest < 2 * MIB else 0
            if calm == 5:
                break
            if rest >= 2 * MIB:
                at = ctypes.c_uint64()
                if cuda.cuMemAlloc_v2(ctypes.byref(at), rest // (2 * MIB) * 2 * MIB) == 0:
                    held.append(at.value)
            time.sleep(0.01)
        print(free_bytes(), flush=True)


# ---- the test ---------------------------------------------------------------------------------------------------------
class Server:
    def __init__(self, role):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), role], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


class Card:
    """Runs programs with so much of the card free."""

    def __init__(self, programs):
        self.holder = None if SIMULATED else Server("hold")
        self.forks = Server("forks") if any(name in ("resnet50", "transformer") for name in programs) else None
        if self.forks:
            assert self.forks.process.stdout.readline().strip() == "ready"

    def runs(self, name, batch, capacity):
        """None: it failed for another reason."""
        environment = dict(os.environ)
        if SIMULATED:
            environment["FAKE_CUDA_MEMORY"] = str(capacity)
        else:
            free = int(self.holder.ask(capacity))
            if abs(free - capacity) > 4 * MIB:
                print(f"{name} {batch}: {free} bytes are free in place of {capacity}", file=sys.stderr)
                return None
        if name == "vgg19":
            return OnnxRuntime.runs(batch, environment)
        if name == "driver":
            code = subprocess.run(command_of(name, batch), env=environment, stderr=subprocess.DEVNULL, timeout=60).returncode
        else:
            code = int(self.forks.ask(f"{name} {batch}"))
        return {0: True, OUT_OF_MEMORY: False}.get(code)

    def end(self):
        for server in (self.holder, self.forks):
            if server:
                server.end()


def sweep(gpupeak, folder, name, *arguments):
    """With --verify its code may be 1: that it could not be shown is no failure of the test."""
    step = STEPS[name]
    run = subprocess.run([gpupeak, "sweep", "-q", "--json", "--out", os.path.join(folder, name), "-P", f"batch={step}:{4 * step}:{step}",
                          *arguments, "--", *command_of(name, "{batch}")],
                         capture_output=True, text=True, timeout=400)
    if not run.stdout:
        raise RuntimeError(f"sweep of {name}: exit code {run.returncode}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def fit(gpupeak, log, *arguments):
    run = subprocess.run([gpupeak, "fit", "--json", *arguments, log], capture_output=True, text=True, timeout=100)
    answer = json.loads(run.stdout)
    assert run.returncode == (0 if answer["verdict"] in (None, "fits") else 1), run.returncode
    return answer


def seconds():
    return time.monotonic() - began


def mib(count):
    return "" if count is None else f"{count / MIB:,.0f}"


def record(gpupeak, folder, programs, budget, wrong):
    """With the card free: nobody else's memory may come and go meanwhile. Returns by program its sweep, by program and capacity what was
    predicted before and after the check."""
    recorded, predicted = {}, {}
    for name in programs:
        report = sweep(gpupeak, folder, name)
        bad = [run["values"]["batch"] + ": " + str(run["why"]) for run in report["runs"] if run["status"] != "done" or not run["most_bytes"]]
        if bad:
            wrong.append(f"{name}: {', '.join(bad)}")
            continue
        recorded[name] = report
        print(f"{name} recorded, {seconds():.0f} s", file=sys.stderr)
        curve = report["groups"][0]["most_curve"]
        for place in PLACES:
            x = place * STEPS[name]
            capacity = int(curve["constant"] + curve["slope"] * x + (curve["square"] or 0) * x * x) // (2 * MIB) * 2 * MIB
            before = sweep(gpupeak, folder, name, "--capacity", str(capacity))["groups"][0]
            after = before
            if seconds() < budget / 2:
                after = sweep(gpupeak, folder, name, "--capacity", str(capacity), "--verify")["groups"][0]
            predicted[name, capacity] = before, after
        print(f"{name} predicted, {seconds():.0f} s", file=sys.stderr)
    return recorded, predicted


def test(gpupeak, programs, budget, folder):
    wrong, tried, left_out, held, fits_said, ran = [], 0, 0, 0, 0, 0
    rows, verdicts, bounds = [], [], []
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        recorded, predicted = record(gpupeak, folder, programs, budget, wrong)
        judged = {}
        for name, report in recorded.items():
            run = report["runs"][2]
            batch = int(run["values"]["batch"])
            device = fit(gpupeak, run["log"])["devices"][0]
            least, most = device["least_bytes"] or 0, device["most_bytes"]
            enough = device["enough_bytes"] or most
            bounds.append(f"| {name} | {batch} | {mib(least)} | {mib(device['enough_bytes'])} | {mib(most)} | "
                          f"{device['pool_repeated']} of {device['pool_requests']} | {len(device['fails'])} | {device['no_simulation'] or ''} |")
            for capacity in (least - 512 * MIB, least - 64 * MIB, *(least + (enough - least) * i // 5 for i in range(1, 5)), enough + 66 * MIB,
                             enough + 128 * MIB, enough + 256 * MIB, most + 66 * MIB, most + 512 * MIB, most + 1024 * MIB):
                capacity = capacity // (2 * MIB) * 2 * MIB
                judged[name, batch, capacity] = pool.submit(fit, gpupeak, run["log"], "--capacity", str(capacity))
        card = Card(recorded)
        try:
            for (name, capacity), (before, after) in predicted.items():
                step = STEPS[name]
                if seconds() > budget:
                    left_out += 1
                    continue
                if after["largest"] is None:
                    wrong.append(f"{name} at {capacity / MIB:.0f} MiB: nothing fits")
                    continue
                largest = int(after["largest"])
                fits, above = card.runs(name, largest, capacity), card.runs(name, largest + 2 * step, capacity)
                tried += 1
                curve = before["largest"]
                right = fits is True and above is False and (curve is None or int(curve) <= largest)
                words = "right" if right else "the curve is TOO LARGE" if fits and above is False else "TOO LARGE" if fits is False else "more than one step too small" if above else "FAILED"
                rows.append(f"| {name} | {mib(capacity)} | {'none' if curve is None else int(curve)} | {largest}{'' if after['was_run'] else ' (not run)'} | "
                            f"{'runs' if fits else 'does not'} | {largest + 2 * step} {'runs' if above else 'does not'} | {words} |")
                if not right:
                    wrong.append(f"{name} at {capacity / MIB:.0f} MiB: batch {largest}: {words}")
            for (name, batch, capacity), future in judged.items():
                verdict = future.result()["verdict"]
                if seconds() > budget:
                    left_out += 1
                    continue
                works = card.runs(name, batch, capacity)
                held += 1
                fits_said += verdict == "fits"
                ran += works is True
                right = works is not None and (verdict == "may_fit" or verdict == ("fits" if works else "does_not_fit"))
                verdicts.append(f"| {name} | {batch} | {mib(capacity)} | {verdict} | {'runs' if works else 'does not'} | "
                                f"{'right' if right else 'WRONG'} |")
                if not right:
                    wrong.append(f"{name}, batch {batch} at {capacity / MIB:.0f} MiB: {verdict}, and it {'runs' if works else 'does not run'}")
        finally:
            card.end()
    print("| program | free, MiB | `sweep`: fits up to | `sweep --verify` | it | two steps above | |\n|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    print("\n| program | batch | at least, MiB | enough | at most | blocks repeated | failing ranges | not simulated |\n|---|---|---|---|---|---|---|---|")
    print("\n".join(bounds))
    print("\n| program | batch | free, MiB | said | it | |\n|---|---|---|---|---|---|")
    print("\n".join(verdicts))
    for text in wrong:
        print(f"WRONG: {text}")
    more = f"; {left_out} left out for want of time" if left_out else ""
    good = not wrong and tried + held > 0
    print(f"fit: {tried} predictions and {held} held runs, of which {ran} ran and {fits_said} were said to fit, "
          f"{'all right' if good else f'{len(wrong)} WRONG'}{more}, {seconds():.0f} s")
    return 0 if good else 1


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["client"]:
        return client(arguments[1], int(arguments[2]))
    if arguments == ["hold"]:
        return hold()
    if arguments == ["forks"]:
        return fork_server()
    options = {"--budget": "450", "--keep": "", "--onnxruntime": ""}
    for option in options:
        if option in arguments:
            at = arguments.index(option)
            options[option] = arguments[at + 1]
            del arguments[at:at + 2]
    if not arguments:
        print(__doc__)
        return 2
    programs = arguments[1:] or ["resnet50", "transformer", "driver"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            if options["--onnxruntime"]:
                OnnxRuntime.use(options["--onnxruntime"], folder)
            return test(os.path.abspath(arguments[0]), programs, float(options["--budget"]), folder)
        finally:
            if options["--keep"]:
                shutil.make_archive(options["--keep"], "gztar", folder)


if __name__ == "__main__":
    sys.exit(main())
