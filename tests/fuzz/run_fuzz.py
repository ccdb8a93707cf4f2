"""Builds the fuzzer with clang and runs it on every writer for a while, from the sample logs and what was found before.

A crash, a hang, an undefined operation or a leak fails; its input stays in build/sanitized/crashes, to be given to the fuzzer as
its only argument. Without clang or its run-time library: skipped.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77


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
    configure = [options.cmake, "--preset", "sanitized", f"-DGPUPEAK_CUDA_INCLUDE_DIR={options.cuda}"]
    subprocess.run(configure, cwd=options.source, stdout=subprocess.DEVNULL, check=True)
    subprocess.run([options.cmake, "--build", "--preset", "sanitized", "-j", str(os.cpu_count()), "--target", "gpupeak_fuzz",
                    "gpupeak_make_corpus"], cwd=options.source, stdout=subprocess.DEVNULL, check=True)
    folder = os.path.join(options.source, "build/sanitized")
    return folder, os.path.join(folder, "tests/fuzz/gpupeak_fuzz"), os.path.join(folder, "tests/fuzz/gpupeak_make_corpus")


def environment(writer):
    return os.environ | {"GPUPEAK_FUZZ_WRITER": writer, "ASAN_OPTIONS": "allocator_may_return_null=0",
                         "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}


def main():
    parser = argparse.ArgumentParser()
    for name in ("source", "cuda", "cmake"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--writers", nargs="*", help="only these")
    options = parser.parse_args()
    folder, fuzzer, make_corpus = build(options)
    samples, crashes = os.path.join(folder, "samples"), os.path.join(folder, "crashes/")
    listed = subprocess.run([make_corpus, samples], stdout=subprocess.PIPE, check=True).stdout.decode()
    names = options.writers or listed.splitlines()
    os.makedirs(crashes, exist_ok=True)

    def fuzz(name):
        corpus = os.path.join(folder, "corpus", name)
        os.makedirs(corpus, exist_ok=True)
        done = subprocess.run([fuzzer, f"-max_total_time={options.seconds}", "-timeout=20", "-rss_limit_mb=4096",
                               "-max_len=65536", "-print_final_stats=1", f"-artifact_prefix={crashes}{name}-", corpus, samples],
                              env=environment(name), stderr=subprocess.PIPE, check=False)
        text = done.stderr.decode(errors="replace")
        facts = dict(re.findall(r"^(?:INFO: )?(Seed|stat::number_of_executed_units): +(\d+)", text, re.M))
        return name, done.returncode, facts, text

    failed = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, code, facts, text in pool.map(fuzz, names):
            runs = facts.get("stat::number_of_executed_units", "?")
            print(f"{name}: seed {facts.get('Seed', '?')}, {runs} runs, {'ok' if code == 0 else 'FAILED'}", flush=True)
            if code != 0:
                print(text[-6000:])
                failed.append(name)
    sys.exit(f"failed: {' '.join(failed)}" if failed else 0)


main()
