"""Fuzzes every writer with libFuzzer, from the sample logs and what was found before.

Builds the fuzzer with clang; without clang or its run-time library: skipped. --pack FOLDER instead puts all that a machine without
compiler and build folder needs into FOLDER, and --packed FOLDER fuzzes with that:

    run_fuzz.py --packed FOLDER --executions 10000000 --within 580

gives each writer --seconds, and to the reader, which is in all of them, what then lacks of that many executions, on all processors.
A crash, a hang, an undefined operation or a leak fails; its input stays in the folder of crashes, to be given to the fuzzer as its
only argument.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time

SKIPPED = 77
LOADER = "ld-linux-x86-64.so.2"


def build(options):
    if not shutil.which("clang++"):
        print("no clang++ here")
        sys.exit(SKIPPED)
    probe = subprocess.run(["clang++", "-fsanitize=fuzzer,address", "-x", "c++", "-", "-o", os.devnull],
                           input=b'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }',
                           stderr=subprocess.PIPE, check=False)
    if probe.returncode != 0:
        print("clang++ has no libFuzzer here; Debian: libclang-rt-dev")
        sys.exit(SKIPPED)
    configure = [options.cmake, "--preset", "sanitized"] + ([f"-DGPUPEAK_CUDA_INCLUDE_DIR={options.cuda}"] if options.cuda else [])
    subprocess.run(configure, cwd=options.source, stdout=subprocess.DEVNULL, check=True)
    subprocess.run([options.cmake, "--build", "--preset", "sanitized", "-j", str(options.jobs), "--target", "gpupeak_fuzz",
                    "gpupeak_make_corpus"], cwd=options.source, stdout=subprocess.DEVNULL, check=True)
    folder = os.path.join(options.source, "build/sanitized")
    make_corpus = os.path.join(folder, "tests/fuzz/gpupeak_make_corpus")
    names = subprocess.run([make_corpus, os.path.join(folder, "samples")], stdout=subprocess.PIPE, check=True).stdout.decode()
    with open(os.path.join(folder, "writers"), "w", encoding="ascii") as file:
        file.write(names)
    return folder, os.path.join(folder, "tests/fuzz/gpupeak_fuzz")


def pack(folder, fuzzer, to):
    shutil.rmtree(to, ignore_errors=True)
    os.makedirs(os.path.join(to, "lib"))
    shutil.copytree(os.path.join(folder, "samples"), os.path.join(to, "samples"))
    shutil.copy(os.path.join(folder, "writers"), to)
    subprocess.run(["strip", "-o", os.path.join(to, "gpupeak_fuzz"), fuzzer], check=True)
    listed = subprocess.run(["ldd", fuzzer], stdout=subprocess.PIPE, check=True).stdout.decode()
    for path in re.findall(r"(/\S+) \(0x", listed):
        shutil.copy(path, os.path.join(to, "lib", os.path.basename(path)))


class Fuzzing:
    def __init__(self, folder, fuzzer, crashes):
        self.folder, self.crashes = folder, os.path.join(crashes, "")
        # It has its own C library and loader, so that it runs on any Linux.
        packed = os.path.join(folder, "lib")
        self.command = [os.path.join(packed, LOADER), "--library-path", packed, fuzzer] if os.path.isdir(packed) else [fuzzer]
        self.total, self.failed = 0, []
        os.makedirs(crashes, exist_ok=True)

    @staticmethod
    def environment(writer):
        # Stacks of allocations are short, and little freed memory is kept: otherwise fuzzing is half as fast.
        asan = "allocator_may_return_null=0:malloc_context_size=3:quarantine_size_mb=16"
        return os.environ | {"GPUPEAK_FUZZ_WRITER": writer, "ASAN_OPTIONS": asan, "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}

    def one(self, writer, limits):
        corpus = os.path.join(self.folder, "corpus", writer)
        os.makedirs(corpus, exist_ok=True)
        # -entropic computes a new weight of every input at each execution. With so many features that takes longer than the execution.
        done = subprocess.run([*self.command, *limits, "-entropic=0", "-timeout=20", "-rss_limit_mb=4096", "-max_len=65536",
                               "-print_final_stats=1", f"-artifact_prefix={self.crashes}{writer}-", corpus,
                               os.path.join(self.folder, "samples")],
                              env=self.environment(writer), stderr=subprocess.PIPE, check=False)
        text = done.stderr.decode(errors="replace")
        facts = dict(re.findall(r"^(?:INFO: )?(Seed|stat::number_of_executed_units): +(\d+)", text, re.M))
        return writer, done.returncode, facts, text

    def all(self, work, jobs):
        """Fuzzes. `work`: pairs of a writer and its limits."""
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for writer, code, facts, text in pool.map(lambda one: self.one(*one), work):
                runs = int(facts.get("stat::number_of_executed_units", 0))
                self.total += runs
                print(f"{writer}: seed {facts.get('Seed', '?')}, {runs} runs, {'ok' if code == 0 else 'FAILED'}", flush=True)
                if code != 0:
                    print(text[-6000:])
                    self.failed.append(writer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    parser.add_argument("--cuda", help="folder of cuda.h")
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--pack", metavar="FOLDER")
    parser.add_argument("--packed", metavar="FOLDER")
    parser.add_argument("--seconds", type=int, default=10, help="for each writer")
    parser.add_argument("--executions", type=int, default=0, help="in all, by the reader what the writers have not done")
    parser.add_argument("--within", type=int, default=0, metavar="SECONDS", help="stop then, however many are done")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--crashes", metavar="FOLDER")
    parser.add_argument("--writers", nargs="*", help="only these")
    options = parser.parse_args()
    began = time.monotonic()
    options.source = os.path.abspath(options.source)
    if options.packed:
        folder = os.path.abspath(options.packed)
        fuzzer = os.path.join(folder, "gpupeak_fuzz")
    else:
        folder, fuzzer = build(options)
    if options.pack:
        pack(folder, fuzzer, options.pack)
        return
    with open(os.path.join(folder, "writers"), encoding="ascii") as file:
        names = options.writers or file.read().split()
    fuzzing = Fuzzing(folder, fuzzer, os.path.abspath(options.crashes or os.path.join(folder, "crashes")))
    began_fuzzing = time.monotonic()
    fuzzing.all([(name, [f"-max_total_time={options.seconds}"]) for name in names], options.jobs)
    lacking = -(-(options.executions - fuzzing.total) // options.jobs)
    if lacking > 0 and not fuzzing.failed:
        limits = [f"-runs={lacking}"]
        if options.within:
            limits.append(f"-max_total_time={max(1, int(options.within - (time.monotonic() - began)))}")
        fuzzing.all([("reader", limits)] * options.jobs, options.jobs)
    seconds = time.monotonic() - began_fuzzing
    print(f"{fuzzing.total} executions of {len(names)} writers in {seconds:.0f} s, {len(fuzzing.failed)} failed")
    sys.exit(f"failed: {' '.join(fuzzing.failed)}" if fuzzing.failed else 0)


main()
