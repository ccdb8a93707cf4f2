#!/usr/bin/env python3
"""What others do on a card changes no row of this process's ledger.

usage: shared_card.py PREFIX [SECONDS]
       shared_card.py LIBRARY:COMMAND [SECONDS]
       shared_card.py PREFIX SECONDS PROGRAMS [JOBS]

PREFIX: an installed gpupeak. Needs a GPU with its driver, and nothing else; ends after SECONDS (110). Prints a Markdown
table: for each case the largest distance of a row from that of a run alone, what is unexplained, and the context's
bytes; then others' sum beside NVML's list, and what the calls of NVML take. PROGRAMS: a file with a command a line,
of real programs, instead of the one here: each alone, then 50 times beside 1, 2 and 8 others, JOBS (4) of them at a
time, so that each has JOBS - 1 more beside it. BY_RUN=1: under `gpupeak run`, not by LD_PRELOAD. Exit code 1 if a
row is off by more than 2 MiB or the own figure is not known.
"""
import concurrent.futures
import ctypes
import itertools
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
BY_RUN = bool(os.environ.get("BY_RUN"))
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 at, .param .u32 n) {
  .reg .u64 %rd<2>;
  .reg .u32 %r<1>;
  ld.param.u64 %rd0, [at];
  cvta.to.global.u64 %rd1, %rd0;
  ld.param.u32 %r0, [n];
  st.global.u32 [%rd1], %r0;
  ret;
}
.visible .entry spill(.param .u64 at, .param .u32 n) {
  .local .align 4 .b8 frame[8192];
  .reg .u64 %rd<6>;
  .reg .u32 %r<6>;
  .reg .pred %p<1>;
  ld.param.u64 %rd0, [at];
  ld.param.u32 %r0, [n];
  cvta.to.global.u64 %rd1, %rd0;
  mov.u64 %rd2, frame;
  mov.u32 %r1, 0;
again:
  mul.lo.u32 %r2, %r1, %r0;
  and.b32 %r2, %r2, 2047;
  mul.wide.u32 %rd3, %r2, 4;
  add.u64 %rd4, %rd2, %rd3;
  st.local.u32 [%rd4], %r1;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p0, %r1, 2048;
  @%p0 bra again;
  and.b32 %r3, %r0, 2047;
  mul.wide.u32 %rd3, %r3, 4;
  add.u64 %rd5, %rd2, %rd3;
  ld.local.u32 %r4, [%rd5];
  st.global.u32 [%rd1], %r4;
  ret;
}
"""


class Card:
    """Memory of GPU 0, by the driver's own calls."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.ask("cuInit", 0)
        self.ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.ask("cuCtxSetCurrent", context)

    def ask(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {result}")

    def take(self, size):
        at = ctypes.c_uint64()
        self.ask("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        return at

    def give(self, at):
        self.ask("cuMemFree_v2", at)

    def launch(self, module, name, at):
        function, n = ctypes.c_void_p(), ctypes.c_uint32(7)
        self.ask("cuModuleGetFunction", ctypes.byref(function), module, name)
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(at), ctypes.addressof(n))
        self.ask("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)


def program():
    """300 MiB, 200 MiB of it for some time; streams, code, a kernel with 8 KiB of local memory a thread."""
    began = time.perf_counter()
    card = Card()
    a = card.take(300 * MIB)
    made = time.perf_counter()
    time.sleep(0.1)
    b = card.take(200 * MIB)
    module, stream = ctypes.c_void_p(), ctypes.c_void_p()
    begun = time.perf_counter()
    try:
        card.ask("cuModuleLoadData", ctypes.byref(module), PTX)
        card.launch(module, b"add", a)
        card.launch(module, b"spill", a)
    except RuntimeError as error:
        print(f"without kernels: {error}", file=sys.stderr)
    for _ in range(16):
        card.ask("cuStreamCreate", ctypes.byref(stream), 1)
    card.ask("cuCtxSynchronize")
    calls = time.perf_counter() - begun
    time.sleep(0.1)
    card.give(b)
    time.sleep(0.1)
    card.ask("cuCtxSynchronize")
    print(f"{made - began} {calls}")


def torch_program():
    import torch  # pylint: disable=import-outside-toplevel,import-error
    layers = torch.nn.Sequential(*(torch.nn.Conv2d(64, 64, 3, padding=1) for _ in range(8))).cuda()
    for _ in range(5):
        layers(torch.randn(16, 64, 128, 128, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    print("0 0")


def noise(seconds, hz):
    """Takes and gives back 0.25 to 1.25 GiB."""
    card, end = Card(), time.monotonic() + seconds
    print("ready", flush=True)
    turn = os.getpid()
    while time.monotonic() < end:
        turn += 1
        try:
            at = card.take((1 + turn % 5) << 28)
        except RuntimeError:  # there is no room just now
            time.sleep(1 / hz)
            continue
        time.sleep(0.5 / hz)
        card.give(at)
        time.sleep(0.5 / hz)


class Nvml:
    """NVML's own calls of GPU 0."""

    def __init__(self):
        self.library, self.device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        self.library.nvmlInit_v2()
        self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))
        self.info = (ctypes.c_uint64 * 5)()
        self.entries = (ctypes.c_uint64 * (256 * 3))()

    def call(self, name):
        count = ctypes.c_uint(256)
        self.info[0] = 40 | 2 << 24
        arguments = (self.info,) if "Memory" in name else (ctypes.byref(count), self.entries)
        if getattr(self.library, name)(self.device, *arguments) != 0:
            raise RuntimeError(name)
        return count.value

    def figures(self):
        """In use of the card, and by process."""
        self.call("nvmlDeviceGetMemoryInfo_v2")
        used, count = self.info[4], self.call("nvmlDeviceGetComputeRunningProcesses_v3")
        return used, {self.entries[3 * i] & 0xffffffff: self.entries[3 * i + 1] for i in range(count)}


def managed():
    """Whether managed memory is in a process's figure."""
    card, nvml, at, module = Card(), Nvml(), ctypes.c_uint64(), ctypes.c_void_p()
    card.ask("cuModuleLoadData", ctypes.byref(module), PTX)
    small = card.take(4096)
    card.launch(module, b"add", small)
    card.ask("cuCtxSynchronize")
    before = nvml.figures()
    card.ask("cuMemAllocManaged", ctypes.byref(at), ctypes.c_size_t(64 * MIB), 1)
    card.ask("cuMemsetD8_v2", at, 1, ctypes.c_size_t(64 * MIB))
    card.ask("cuCtxSynchronize")
    after = nvml.figures()
    pid = os.getpid()
    print(f"managed 64 MiB: the card {(after[0] - before[0]) / MIB:+.1f} MiB, the process "
          f"{(after[1].get(pid, 0) - before[1].get(pid, 0)) / MIB:+.1f}; of the card {after[0] / MIB:.1f}, listed "
          f"{sum(after[1].values()) / MIB:.1f}, this process listed: {pid in after[1]}")


def hold(seconds):
    card = Card()
    card.take(1 << 30)
    print("ready", flush=True)
    time.sleep(seconds)


def start(*what):
    process = subprocess.Popen([sys.executable, __file__, "--as", *map(str, what)], stdout=subprocess.PIPE, text=True)
    return process


class Others:
    """Other processes on the card: COUNT that move HZ times a second, or brief ones, one after the other."""

    def __init__(self, count, hz, brief=False):
        self.count, self.hz, self.brief, self.over = count, hz, brief, threading.Event()
        self.processes, self.threads = [], []

    def come_and_go(self):
        while not self.over.is_set():
            start("noise", 0.1, self.hz).communicate()

    def __enter__(self):
        if self.brief:
            self.threads = [threading.Thread(target=self.come_and_go) for _ in range(self.count)]
        else:
            self.processes = [start("noise", 600, self.hz) for _ in range(self.count)]
        for thread in self.threads:
            thread.start()
        for process in self.processes:
            process.stdout.readline()
        return self

    def __exit__(self, *_):
        self.over.set()
        for process in self.processes:
            process.kill()
            process.communicate()
        for thread in self.threads:
            thread.join()


def rows(view):
    return {row["cause"]: row["bytes"] for row in view["rows"]}


class Bench:
    def __init__(self, what, seconds):
        library, colon, command = what.partition(":")
        prefix = pathlib.Path(what).resolve()
        self.preload = pathlib.Path(library).resolve() if colon else prefix / "lib/gpupeak/libgpupeak.so"
        self.gpupeak = pathlib.Path(command).resolve() if colon else prefix / "bin/gpupeak"
        self.end = time.monotonic() + seconds
        self.work = pathlib.Path(tempfile.mkdtemp())
        self.expected, self.is_good, self.count = {}, True, itertools.count(1)

    def run(self, what="program", before=(), ledger="auto"):
        """What the program printed, and its ledger."""
        log = self.work / f"{next(self.count)}.gplog"
        # The library is loaded into the program alone, not into what starts it.
        words = [sys.executable, __file__, "--as", what] if what in PROGRAMS else shlex.split(what)
        recorded = [self.gpupeak, "run", "-q", "-o", log, "--"] if BY_RUN else \
            ["env", f"LD_PRELOAD={self.preload}", f"GPUPEAK_OUT={log}", "GPUPEAK_SUMMARY=off"]
        command = [*before, "env", f"GPUPEAK_LEDGER={ledger}", *recorded, *words]
        ran = subprocess.run(command, check=True, capture_output=True, text=True, errors="replace", timeout=60)
        if ran.stderr and what == "program" and not self.expected:
            print(ran.stderr.strip()[-300:])
        if ledger == "off":
            return ran.stdout, None, log
        report = json.loads(subprocess.run([self.gpupeak, "report", "--json", log], check=True, capture_output=True,
                                           timeout=60).stdout)
        return ran.stdout, next(device["ledger"] for device in report["devices"] if device["ledger"]), log

    def figures(self, what):
        ledger = self.run(what)[1]
        return {when: rows(ledger[when]) for when in ("at_peak", "at_exit")}

    def alone(self, what="program"):
        self.expected = self.figures(what)
        print(f"\n{what} alone, at the peak: " +
              ", ".join(f"{cause} {size / MIB:.1f}" for cause, size in self.expected["at_peak"].items()) + " MiB\n")
        print("| others | runs | rows' largest distance from alone, MiB | unexplained, MiB | context, MiB | own known "
              "| |")
        print("|---|---|---|---|---|---|---|", flush=True)

    def case(self, name, most, share, what="program", before=()):
        """Up to MOST runs, within this SHARE of the time that is left."""
        end = time.monotonic() + (self.end - time.monotonic()) * share
        furthest, unexplained, contexts, own, where, ran = 0, 0, set(), 0, "", 0
        while ran < most and (ran == 0 or time.monotonic() < end):
            ledger = self.run(what, before)[1]
            ran += 1
            own += all(ledger[when].get("of_process", False) for when in self.expected)
            for when, wanted in self.expected.items():
                found = rows(ledger[when])
                unexplained = max(unexplained, abs(found.get("unexplained", 0)))
                contexts.add(round(found.get("context", 0) / MIB))
                for cause in wanted.keys() | found.keys():
                    apart = abs(found.get(cause, 0) - wanted.get(cause, 0))
                    if apart > furthest:
                        furthest, where = apart, f"{cause} {when}"
        good = furthest <= 2 * MIB and unexplained <= 2 * MIB and own == ran
        self.is_good &= good
        print(f"| {name} | {ran} | {furthest / MIB:.1f} {where if furthest > 2 * MIB else ''} "
              f"| {unexplained / MIB:.1f} | {', '.join(map(str, sorted(contexts)))} | {own} of {ran} "
              f"| {'good' if good else '**DIFFERS**'} |", flush=True)

    def held(self):
        """Others' sum beside what NVML lists, while they hold what they have."""
        process = start("hold", 600)
        process.stdout.readline()
        listed = subprocess.run(["nvidia-smi", "--query-compute-apps=used_memory", "--format=csv,noheader,nounits"],
                                check=True, capture_output=True, text=True).stdout.split()
        _, ledger, log = self.run()
        process.kill()
        process.communicate()
        others, by_smi = ledger["at_exit"].get("others_bytes"), sum(int(mib) for mib in listed if mib.isdigit()) * MIB
        self.is_good &= others is not None and abs(others - by_smi) <= 2 * MIB
        print(f"\nothers, one that holds 1 GiB: {others} bytes; nvidia-smi {by_smi}")
        text = subprocess.run([self.gpupeak, "report", log], check=True, capture_output=True, text=True).stdout
        print("\n".join(line for line in text.splitlines() if "others" in line or "in use by" in line))

    def costs(self, beside):
        """What a reading and a list of processes take, and what the program's own calls take with and without both."""
        nvml, taken = Nvml(), []
        for name in ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
                     "nvmlDeviceGetGraphicsRunningProcesses_v3"):
            times = []
            for _ in range(100):
                began = time.perf_counter()
                nvml.call(name)
                times.append(time.perf_counter() - began)
            taken.append(f"{name[len('nvmlDeviceGet'):]} {statistics.median(times) * 1e6:.0f}")
        print(f"\nbeside {beside}, us: " + ", ".join(taken))
        calls = {ledger: [list(map(float, self.run(ledger=ledger)[0].split())) for _ in range(3)]
                 for ledger in ("auto", "off")}
        for i, name in enumerate(("context", "calls")):
            medians = {ledger: statistics.median(t[i] for t in times) * 1e3 for ledger, times in calls.items()}
            print(f"{name}, ms: {medians['auto']:.1f}; with GPUPEAK_LEDGER=off {medians['off']:.1f}", flush=True)


def named(what):
    words = shlex.split(what)
    return os.path.basename(words[2] if words[:2] == ["env", "-C"] else words[0])


def real_programs(bench, path, jobs):
    """Each line of the file beside others: how far rows are from those alone, in all runs."""
    with open(path, encoding="utf-8") as file:
        programs = [line.strip() for line in file if line.strip()]
    alone, tracked = {}, {}

    def apart(what):
        ledger = bench.run(what)[1]
        found = {when: rows(ledger[when]) for when in ("at_peak", "at_exit")}
        # A busy card has no reading at a peak that lasts some milliseconds; the ledger then says of when it is.
        early = ledger["at_peak"]["tracked_bytes"] < tracked.setdefault(what, ledger["at_peak"]["tracked_bytes"])
        furthest = max((abs(found[when].get(cause, 0) - wanted.get(cause, 0)), f"{cause} {when}")
                       for when, wanted in alone[what].items() for cause in wanted.keys() | found[when].keys()
                       if when == "at_exit" or not early)
        known = all(ledger[when].get("of_process", False) for when in found)
        return *furthest, max(abs(found[when].get("unexplained", 0)) for when in found), known, early, found

    def shown(figures):
        return "; ".join(f"{when} " + ", ".join(f"{cause} {size / MIB:.1f}" for cause, size in found.items())
                         for when, found in figures.items())

    print("alone, MiB:")
    for what in programs:
        try:
            alone[what] = bench.figures(what)
            again = apart(what)
            print(f"- {named(what)}: {shown(alone[what])}; once more alone: {again[0] / MIB:.1f} apart", flush=True)
        except (subprocess.SubprocessError, StopIteration, TypeError) as error:
            alone.pop(what, None)
            print(f"left out: {what}: {error}", flush=True)
    print("\n| program | others | runs | read before the peak | rows' largest distance from alone, MiB | unexplained, MiB | own known | |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    notes, cases = [], ((1, 1000), (2, 1000), (8, 16))
    for case, (count, hz) in enumerate(cases):
        end = time.monotonic() + (bench.end - time.monotonic()) / (len(cases) - case)
        with Others(count, hz), concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            runs = {what: [] for what in alone}
            for _ in range(50):  # in turns, so that all have as many runs where time is short
                for what, futures in runs.items():
                    futures.append(pool.submit(lambda what=what: apart(what) if time.monotonic() < end else None))
            for what, futures in runs.items():
                done, failed = [], 0
                for future in futures:
                    try:
                        done.append(future.result())
                    except (subprocess.SubprocessError, StopIteration, TypeError) as error:
                        failed += 1
                        notes.append(f"{named(what)} beside {count}: {error}"
                                     + str(getattr(error, "stderr", None) or "")[-300:])
                done = [run for run in done if run]
                if not done and not failed:
                    continue
                furthest, cause, *_, worst = max(done, key=lambda run: run[0], default=(0, "", 0, 0, False, {}))
                unexplained, known = max((run[2] for run in done), default=0), sum(run[3] for run in done)
                good = furthest <= 2 * MIB and unexplained <= 2 * MIB and known == len(done) and not failed
                bench.is_good &= good
                print(f"| {named(what)} | {count}, {hz} times a second each; {jobs - 1} programs "
                      f"| {len(done)}{f', {failed} failed' if failed else ''} | {sum(run[4] for run in done)} "
                      f"| {furthest / MIB:.1f} {cause if furthest >= MIB else ''} | {unexplained / MIB:.1f} "
                      f"| {known} of {len(done)} | {'good' if good else '**DIFFERS**'} |", flush=True)
                if furthest >= MIB:
                    off = sum(run[0] >= MIB for run in done)
                    notes.append(f"{named(what)} beside {count}, {off} of {len(done)} runs 1 MiB or more from alone: the furthest: "
                                 f"{shown(worst)}")
    print("\n" + "\n".join(notes), flush=True)


def main():
    bench = Bench(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 110)
    if len(sys.argv) > 3:
        real_programs(bench, sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 4)
        sys.exit(0 if bench.is_good else 1)
    bench.alone()
    bench.case("none", 50, 0.06)
    for count, hz, share in ((1, 16, 0.1), (1, 1000, 0.1), (2, 16, 0.12), (2, 1000, 0.12), (8, 16, 0.15),
                             (8, 1000, 0.2)):
        with Others(count, hz):
            bench.case(f"{count}, {hz} times a second each", 50, share)
    with Others(3, 50, brief=True):
        bench.case("3 that begin and end", 50, 0.3)
    with Others(2, 100):
        for more in ((), ("--mount-proc",)):
            name, before = " ".join(("2, in a pid namespace", *more)), ("unshare", "--pid", "--fork", *more)
            alone = [*before, sys.executable, __file__, "--as", "program"]
            if subprocess.run(alone, check=False, capture_output=True).returncode == 0:
                bench.case(name, 50, 0.25, before=before)
            else:
                print(f"| {name}: the program does not run in one here | | | | | | |")
        bench.costs("2 at 100 times a second")
    bench.held()
    print(start("managed").communicate(timeout=30)[0], flush=True)
    if time.monotonic() < bench.end and subprocess.run([sys.executable, "-c", "import torch"], check=False,
                                                       capture_output=True).returncode == 0:
        bench.alone("torch")
        with Others(2, 1000):
            bench.case("2, 1000 times a second each", 50, 1, "torch")
    sys.exit(0 if bench.is_good else 1)


PROGRAMS = {"program": program, "torch": torch_program, "noise": noise, "hold": hold, "managed": managed}
if sys.argv[1:2] == ["--as"]:
    PROGRAMS[sys.argv[2]](*map(float, sys.argv[3:]))
else:
    main()
