"""The resident memory of a run's processes, as `run` sees it from outside. argv: … CASE"""
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time

from common import GPUPEAK, Skipped, expect, run_case

MIB = 1 << 20
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_PRELOAD"))}


def run(folder, *command, options=(), **more):
    """Runs the program. Returns its output, gpupeak's messages, and the run's summary."""
    log = os.path.join(folder, "a.gplog")
    done = subprocess.run([GPUPEAK, "run", *options, "-o", log, "--", *command], env=ENVIRONMENT, cwd=folder, capture_output=True, text=True,
                          check=False, **more)
    expect(done.returncode == 0, f"{command} ends with {done.returncode}: {done.stderr}")
    return done.stdout, done.stderr, summary(log)


def summary(log):
    done = subprocess.run([GPUPEAK, "report", "--json", log], capture_output=True, check=False)
    expect(done.returncode == 0, f"report of {log}: {done.stderr.decode()}")
    return json.loads(done.stdout)


def causes(metrics):
    """The causes by name, in bytes. Their sum is the total."""
    found = {name.removeprefix("host.resident."): bytes_ for name, bytes_ in metrics.items() if name.startswith("host.resident.")}
    total = found.pop("total_bytes")
    expect(total is not None and sum(bytes_ for bytes_ in found.values() if bytes_) == total, f"{found} are not {total}")
    return found, total


def compiled(folder, source, *options):
    program = os.path.join(folder, "program")
    subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", program, *options], input=textwrap.dedent(source).encode(), check=True)
    return program


def thread_stacks(folder):
    """Stacks that threads have touched. No call for them is seen, and at a thread's end its stack is gone."""
    program = compiled(folder, """
        #include <pthread.h>
        #include <unistd.h>
        enum { kThreads = 20, kTouched = 6 << 20 };
        static void* touch(void* unused) {
          volatile char stack[kTouched];
          for (unsigned i = 0; i < sizeof stack; i += 4096) stack[i] = 1;
          sleep(2);  /* until the last of them has touched its own, on a busy machine too */
          return stack[9] ? unused : 0;
        }
        int main() {
          pthread_t threads[kThreads];
          for (int i = 0; i < kThreads; ++i) pthread_create(threads + i, 0, touch, 0);
          for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
        }
    """, "-pthread")
    _, said, found = run(folder, program)
    by_cause, total = causes(found["metrics"])
    expect(120 * MIB <= by_cause["thread_stacks_bytes"] < 124 * MIB, f"120 MiB of stacks: {by_cause}")
    expect(by_cause["unexplained_bytes"] <= total // 50, f"{by_cause} of {total}")
    expect("thread stacks 120 MiB" in said, said)
    expect(re.search(r"peak 1[23][0-9] MiB resident, 120 MiB of it thread stacks; [0-9.]+ KiB of heap and mappings at", said), said)
    told = subprocess.run([GPUPEAK, "report", "--full", os.path.join(folder, "a.gplog")], capture_output=True, text=True, check=True).stdout
    expect(re.search(r"^RESIDENT.*\n +120 MiB .* thread stacks$", told, re.M), told)


def driver_pages(folder):
    """Pages of the driver's devices, here of a file that has such a name, at a look that does not read the kernel's list with figures."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", folder], capture_output=True, check=False).returncode != 0:
        raise Skipped("no namespace of mounts")
    program = compiled(folder, """
        #include <fcntl.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        static char* map(int flags, int file, unsigned bytes) { return mmap(0, bytes, PROT_READ | PROT_WRITE, flags, file, 0); }
        int main() {
          int device = open("/dev/nvidia-pages", O_RDWR);
          char* pages = map(MAP_SHARED, device, 48 << 20);
          char* first = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, 32 << 20);
          memset(first, 1, 32 << 20);
          munmap(first, 32 << 20);  /* a look before: the first reads the list */
          memset(pages, 1, 24 << 20);
          char* second = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, 64 << 20);
          memset(second, 1, 64 << 20);
          usleep(300000);  /* looks have a share of the time */
          munmap(second, 64 << 20);
          return pages == MAP_FAILED;
        }
    """)
    with open(os.path.join(folder, "pages"), "wb") as file:
        file.truncate(48 * MIB)
    nodes = "null zero urandom tty"
    script = f"""set -e; cd {folder}; mkdir -p old; mount --rbind /dev old; mount -t tmpfs none /dev
        for node in {nodes} nvidia-pages; do touch /dev/$node; done
        for node in {nodes}; do mount --bind old/$node /dev/$node; done; mount --bind pages /dev/nvidia-pages; exec "$@" """
    log = os.path.join(folder, "a.gplog")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", GPUPEAK, "run", "-o", log, "--", program], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{done.stdout} {done.stderr}")
    by_cause, total = causes(summary(log)["metrics"])
    expect(by_cause["driver_bytes"] == 24 * MIB, f"24 MiB of the driver's: {by_cause}")
    expect(by_cause["files_bytes"] < 8 * MIB and by_cause["unexplained_bytes"] <= total // 50, f"{by_cause} of {total}")


def static_data(folder):
    """Variables that begin as zeros, of the program and of a library. No call allocates them. A mapping of the program may lie right behind them."""
    library = os.path.join(folder, "libtable.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], check=True,
                   input=b"static char table[80 << 20]; char* fill_table(void) { for (unsigned i = 0; i < sizeof table; i += 4096) table[i] = 1; return table + sizeof table; }")
    source = """
        #include <signal.h>
        #include <stdint.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        extern char* fill_table(void);
        static char own[40 << 20];
        int main(int count, char** arguments) {
          uintptr_t behind = ((uintptr_t)fill_table() + 4095) & ~(uintptr_t)4095;
          memset(own, 1, sizeof own);
          char* at = mmap((void*)behind, 30 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          if (at != MAP_FAILED) memset(at, 1, 30 << 20);
          if (count > 1) { sleep(5); raise(SIGKILL); }  /* `run` has looked */
        }
    """
    program = compiled(folder, source, f"-L{folder}", "-ltable", f"-Wl,-rpath,{folder}")
    log = os.path.join(folder, "a.gplog")
    for arguments in ([], ["killed"]):
        subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", program, *arguments], env=ENVIRONMENT, check=False)
        by_cause, total = causes(summary(log)["metrics"])
        expect(120 * MIB <= by_cause["static_data_bytes"] < 121 * MIB, f"{arguments}: 120 MiB of static data: {by_cause}")
        expect(29 * MIB <= by_cause["mappings_bytes"] < 31 * MIB, f"{arguments}: {by_cause}")
        expect(by_cause["unexplained_bytes"] <= total // 50, f"{arguments}: {by_cause} of {total}")
    told = subprocess.run([GPUPEAK, "report", "--full", log], capture_output=True, text=True, check=True).stdout
    expect(re.search(r"^RESIDENT.*\n +120 MiB .* static data$", told, re.M), told)


def no_cause(folder):
    """Memory that the program takes from the kernel by system calls that nobody sees. The run is said to be incomplete, and by how much."""
    program = compiled(folder, """
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(int count, char** arguments) {
          enum { kBytes = 60 << 20 };
          char* at = count > 1 ? mmap(0, kBytes, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                               : (char*)syscall(SYS_mmap, 0, kBytes, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          memset(at, 1, kBytes);
          sleep(2);
        }
    """)
    _, said, found = run(folder, program)
    by_cause, _ = causes(found["metrics"])
    expect(59 * MIB <= by_cause["unexplained_bytes"] < 61 * MIB, f"{by_cause}")
    expect(re.search(r"no record lost · (59|60)\.\d MiB resident without a known cause\n", said) and "✓ complete" not in said, said)
    _, said, _ = run(folder, program, "by mmap")
    expect("✓ complete" in said and "without a known cause" not in said, said)


def reserved(folder):
    """One of two programs of a run asks for more and touches little. The screen is about the other one, in its rows and below."""
    program = compiled(folder, """
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(int count, char** arguments) {
          size_t bytes = (size_t)atoi(arguments[1]) << 20, touched = (size_t)atoi(arguments[2]) << 20;
          char* at = malloc(bytes);
          memset(at, 1, touched);
          sleep(2);
          return at[touched / 2] - 1;
        }
    """)
    _, said, _ = run(folder, "sh", "-c", f"{program} 400 20 & {program} 120 120 & wait")
    (pid,) = re.findall(r"pid (\d+) program  120 MiB of heap", said)
    expect(re.search(rf"^  (?:run: exit 0 · )?pid {pid} program: .* host events", said, re.M), said)


def only_touched(folder):
    """Memory that a program touches long after it was mapped. Then the program is killed."""
    script = "import mmap, os, signal, time\nm = mmap.mmap(-1, 300 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nfor i in range(0, 200 << 20, 4096): m[i] = 1\ntime.sleep(5)\nos.kill(os.getpid(), signal.SIGKILL)"
    log = os.path.join(folder, "a.gplog")
    subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", sys.executable, "-c", script], env=ENVIRONMENT, check=False)
    by_cause, total = causes(summary(log)["metrics"])
    expect(200 * MIB <= by_cause["mappings_bytes"] < 210 * MIB, f"{by_cause} of {total}")
    database = os.path.join(folder, "a.sqlite")
    subprocess.run([GPUPEAK, "export", "sqlite", log, "-o", database], stderr=subprocess.DEVNULL, check=False)
    told = sqlite3.connect(database).execute("SELECT value FROM GPUPEAK_METRICS WHERE name = 'host.resident.total_bytes'").fetchone()
    expect(told == (total,), f"an export has {told} of {total}")


def aligned_mapping(folder):
    """Mappings of the program at addresses at which an arena of malloc could begin, one of them no larger than an arena. If the program is
    killed, only `run` has seen them."""
    program = compiled(folder, """
        #include <signal.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        int main(int count, char** arguments) {
          char* large = mmap((void*)0x200000000000, 200 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          if (large == (char*)0x200000000000) memset(large, 1, 200 << 20);
          char* small = mmap((void*)0x210000000000, 40 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          if (small == (char*)0x210000000000) memset(small, 1, 40 << 20);
          if (count > 1) { sleep(5); raise(SIGKILL); }  /* a busy machine is looked at every few seconds */
        }
    """)
    log = os.path.join(folder, "a.gplog")
    for arguments in ([], ["killed"]):
        subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", program, *arguments], env=ENVIRONMENT, check=False)
        whole = summary(log)
        by_cause, total = causes(whole["metrics"])
        expect(239 * MIB <= by_cause["mappings_bytes"] < 250 * MIB, f"{arguments}: {by_cause} of {total}")
    of_process = causes(summary(f"{log}#{whole['run']['pid']}")["metrics"])
    expect(of_process == (by_cause, total), f"LOG#PID: {of_process}")


def forked_workers(folder):
    """Pages that a parent shares with its workers count once in the run's sum. Each worker's own pages are given as memory since the fork."""
    script = textwrap.dedent("""
        import multiprocessing, re, os, time
        big = bytearray(b"x") * (200 << 20)
        def pss(process):
            return int(re.search(r"^Pss:\\s+(\\d+)", open(f"/proc/{process}/smaps_rollup").read(), re.M)[1]) << 10
        def work(event):
            own = bytearray(b"y") * (20 << 20)
            event.wait()
        if __name__ == "__main__":
            multiprocessing.set_start_method("fork")
            event = multiprocessing.Event()
            workers = [multiprocessing.Process(target=work, args=(event,)) for _ in range(5)]
            for worker in workers:
                worker.start()
            time.sleep(4)
            print(pss(os.getpid()) + sum(pss(worker.pid) for worker in workers))
            event.set()
            for worker in workers:
                worker.join()
    """)
    path = os.path.join(folder, "workers.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    out, said, found = run(folder, sys.executable, path, options=["--children", "all"])
    truth, whole = int(out), found["whole_run"]
    seen = whole["metrics"]["host.pss.peak_bytes"]
    expect(0.95 * truth < seen < 1.05 * truth, f"together {seen}, in truth {truth}")
    expect("gpupeak: peak 3" in said and "or more resident, of 6 processes together, shared pages once" in said, said)
    expect(said.count("+20.0 MiB of heap since the fork") == 5 and "20.0 MiB work workers.py:7" in said, said)
    expect(len(whole["processes"]) == 6, f"{len(whole['processes'])} processes")
    expect(re.search(r"200 MiB +\S+ %  <module> workers.py:3", said), f"the rows are not the parent's: {said}")
    for process in whole["processes"]:
        if process["started"]:
            continue
        expect(20 * MIB <= process["host_peak_bytes"] < 24 * MIB, f"since the fork: {process['host_peak_bytes']}")


def shared_batches(folder):
    """A worker puts its batches into shared memory, as a DataLoader's worker does. They are a cause of their own, in the worker and its parent."""
    script = textwrap.dedent("""
        import multiprocessing, sys, time
        from multiprocessing import shared_memory
        def load(queue, done):
            block = shared_memory.SharedMemory(create=True, size=60 << 20)
            block.buf[:] = bytes(60 << 20)
            queue.put(block.name)
            done.wait()
            block.close()
        if __name__ == "__main__":
            multiprocessing.set_start_method("fork")
            queue, done = multiprocessing.Queue(), multiprocessing.Event()
            worker = multiprocessing.Process(target=load, args=(queue, done))
            worker.start()
            batch = shared_memory.SharedMemory(name=queue.get())
            total = sum(batch.buf[::4096])
            time.sleep(1.0)
            batch.close()
            batch.unlink()
            done.set()
            worker.join()
    """)
    path = os.path.join(folder, "loader.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    _, _, found = run(folder, sys.executable, path)
    both = [process["rss_peak_bytes"] for process in found["whole_run"]["processes"] if process["rss_peak_bytes"] >= 60 * MIB]
    expect(len(both) == 2, f"{found['whole_run']['processes']}")
    shared = found["whole_run"]["metrics"]["host.resident.shared_memory_bytes"]
    expect(60 * MIB <= shared < 62 * MIB, f"shared memory {shared}")
    seen = found["whole_run"]["metrics"]["host.pss.peak_bytes"]
    expect(seen < sum(both) - 50 * MIB, f"together {seen}, each {both}")


def by_site(folder, way, known=(), options=()):
    """What each site has touched lies within the bounds of its row. Rows of `known` sites have one figure, on the screen, too."""
    program = compiled(folder, open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "by_site.c"), encoding="utf-8").read(), "-g")
    out, said, found = run(folder, program, way, options=options)
    logs = [process["log"] for process in found["whole_run"]["processes"]]
    told = [(row, log) for log in logs for peak in summary(os.path.join(folder, log))["peaks"] if peak["scope"] == "host" for row in peak["holders"]]
    sum_of_known = 0
    *sites, whole = out.splitlines()
    for line in sites:
        site, touched = line.split()[0], int(line.split()[1])
        ((row, log),) = [(row, log) for row, log in told if re.search(rf"(^|← ){site} ", row["site"])]
        least, most = row["resident"]["least_bytes"], row["resident"]["most_bytes"]
        # Beside a block of malloc's there are two words of its own.
        expect(least <= touched + 4096 and touched <= most <= row["bytes"] + 4096, f"{site}: {touched} are not in {row}")
        report = subprocess.run([GPUPEAK, "report", os.path.join(folder, log)], capture_output=True, text=True, check=True).stdout
        mark = re.search(rf"{site} .*\((≤ )?([\d.]+ [KMG]iB) resident\)", report)
        if site in known:
            expect(most - least <= 8192, f"{site}: {touched}, and {row}")
            shown = mark is None if touched == row["bytes"] else mark.groups() == (None, f"{touched // MIB} MiB")
            expect(shown, f"{site}: {mark} in {report}")
            sum_of_known += most
        elif mark:  # how much is not known depends on where the kernel puts mappings
            expect(mark[1] or most - least < most / 64, f"{site}: {row}, {report}")
    if len(known) == len(sites) and not options:
        for all_bytes in (int(whole.split()[1]), found["metrics"]["host.memory.peak_bytes"]):
            expect(0 <= all_bytes - sum_of_known <= 2 * MIB, f"{sum_of_known} of {all_bytes}, {found['metrics']}")
    return said, found


def by_site_reserved(folder):
    """16 GiB are reserved and 100 MiB of them touched; another line's mapping is touched whole. Each row says what it had, the larger one first."""
    said, _ = by_site(folder, "reserved", ["reserve", "whole"])
    expect(re.search(r"300 MiB .*← whole [^\n]*\n +16\.0 GiB .*← reserve .*\(100 MiB resident\)", said), said)


def by_site_side_by_side(folder):
    """Two mappings and a block of malloc's, which the kernel has as one mapping, each touched in part, are told apart by pages."""
    _, found = by_site(folder, "side_by_side", ["part", "whole", "block"])
    by_cause, _ = causes(found["metrics"])
    expect(310 * MIB <= by_cause["mappings_bytes"] < 311 * MIB and 120 * MIB <= by_cause["heap_bytes"] < 121 * MIB, f"{by_cause}")


def by_site_one_mapping(folder):
    """The only look was at the list, which has two sites' memory as one mapping: there are only bounds."""
    said, _ = by_site(folder, "one_mapping")
    expect("(≤ 250 MiB resident)" in said, said)


def by_site_given_back(folder):
    """What madvise gave back before the peak is not resident."""
    by_site(folder, "given_back", ["part", "whole"])


def by_site_many(folder):
    """More pieces than a look can name: bounds for those in pieces, a figure for the large one."""
    by_site(folder, "many", ["whole"])


def by_site_forked(folder):
    """Parent and child each say what they had of their own. What the child has from its parent has no owner there: that may leave a bound."""
    by_site(folder, "forked", ["part"], ["--children", "all"])


OWN_MEMORY = {"sbrk": "mappings", "static": "static_data", "written_file": "written_files", "dev_zero": "mappings", "memfd": "shared_memory", "system_v": "shared_memory",
              "growing_stack": "thread_stacks", "resting": "mappings", "pkey": "mappings", "reserved": "mappings", "malloc": "heap"}


def own_memory(folder):
    """64 MiB by each way in which memory becomes a process's own. The first sentence has them, by the kernel's word; they have a cause."""
    program = compiled(folder, open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "own_memory.c"), encoding="utf-8").read())
    for way, cause in OWN_MEMORY.items():
        if subprocess.run([program, way], cwd=folder, capture_output=True, check=False).returncode == 77:
            print(f"{way}: not here")
            continue
        out, said, found = run(folder, program, way)
        metrics = found["metrics"]
        truth, by_cause, total = int(out), *causes(metrics)
        gpupeaks = by_cause["gpupeak_bytes"]
        memory, seen = metrics["host.memory.peak_bytes"], metrics["host.memory.seen_bytes"]
        # gpupeak's own memory is in the kernel's word, and there at most as much as it has mapped.
        expect(truth - gpupeaks - (256 << 10) <= memory <= truth + (256 << 10), f"{way}: {memory}, by the kernel {truth}, of it gpupeak's {gpupeaks}")
        expect(memory - seen <= memory // 100, f"{way}: {seen} seen of {memory}")
        expect(63 * MIB <= by_cause[cause + "_bytes"] < 66 * MIB, f"{way}: {by_cause}")
        expect(by_cause["unexplained_bytes"] <= total // 50, f"{way}: {by_cause}")
        expect((by_cause["kept_by_malloc_bytes"] or 0) < MIB, f"{way}: {by_cause}")
        expect(re.search(r"gpupeak: peak 6[45]\.\d MiB", said), f"{way}: {said}")
        expect(f"\nPeak host memory: {memory} bytes\n" in said, f"{way}: {said}")
        if way == "sbrk":
            expect(re.search(r"64\.0 MiB .* fill_table", said), said)
        if way == "reserved":
            expect("resident; 16.0 GiB of heap and mappings" in said, said)


def own_of_library(folder):
    """What gpupeak has for itself, a place for each thread and its tables among that, is no memory of the program's, and is not more than is resident."""
    program = compiled(folder, """
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        static pthread_barrier_t barrier;
        static void* begin(void* unused) { munmap(mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096); pthread_barrier_wait(&barrier); pthread_barrier_wait(&barrier); return unused; }
        int main() {
          char line[200], *at[100];
          unsigned long part, own = 0;
          pthread_t thread[100];
          pthread_barrier_init(&barrier, 0, 101);
          for (int i = 0; i < 100; ++i) pthread_create(thread + i, 0, begin, 0);
          pthread_barrier_wait(&barrier);
          for (int i = 0; i < 100; ++i) at[i] = memset(malloc(200000), 1, 200000);
          FILE* file = fopen("/proc/self/status", "r");
          while (fgets(line, sizeof line, file)) if (sscanf(line, "RssAnon: %lu", &part) == 1) own += part << 10;
          printf("%lu\\n", own);
          fflush(stdout);
          for (int i = 0; i < 100; ++i) free(at[i]);
          _exit(0);
        }
    """, "-pthread")
    alone = int(subprocess.run([program], env=ENVIRONMENT, capture_output=True, check=True).stdout)
    below, _, found = run(folder, program)
    memory, seen = found["metrics"]["host.memory.peak_bytes"], found["metrics"]["host.memory.seen_bytes"]
    by_cause, _ = causes(found["metrics"])
    expect(int(below) - alone > 4 * MIB, f"gpupeak has something for itself: {below} and {alone} alone")
    expect(abs(memory - alone) < MIB + memory - seen, f"{memory}, seen {seen}, alone {alone}, with gpupeak's {below}: {by_cause}")
    expect(abs(by_cause["gpupeak_bytes"] - (int(below) - alone)) < MIB, f"{by_cause}, {below}, {alone}")


def log_in_memory(folder):
    """A log on a tmpfs is shared memory, and gpupeak's all the same."""
    program = compiled(folder, "#include <stdlib.h>\n#include <string.h>\nint main() { for (int i = 0; i < 100000; ++i) memset(malloc(100 + i % 7), 1, 100); }\n")
    if not os.access("/dev/shm", os.W_OK):
        raise Skipped("no /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        found = [run(at, program)[2]["metrics"] for at in (folder, place)]
    on_disk, in_memory = (one["host.memory.peak_bytes"] for one in found)
    expect(found[1]["host.resident.gpupeak_bytes"] > MIB // 2 and abs(in_memory - on_disk) < 128 << 10, f"{on_disk} and {in_memory}: {found}")


def freed_before_files(folder):
    """What was the process's own at most, and went before pages of files came, which made more resident. The look at all mappings came too early for it."""
    source = """
        #include <fcntl.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        static void hold(size_t bytes) {
          char* at[BLOCKS];
          for (int i = 0; i < BLOCKS; ++i) at[i] = memset(TAKE(bytes / BLOCKS), 1, bytes / BLOCKS);
          for (int i = 0; i < BLOCKS; ++i) GIVE(at[i], bytes / BLOCKS);
        }
        int main() {
          enum { kFile = 100 << 20 };
          static char page[1 << 20];
          int file = open("data", O_RDWR | O_CREAT, 0600), sum = 0;
          for (int i = 0; i < kFile; i += sizeof page) write(file, page, sizeof page);
          hold(8 << 20);
          usleep(50000);  // looks take a 256th of the time at most
          hold(24 << 20);
          char* at = mmap(0, kFile, PROT_READ, MAP_SHARED, file, 0);
          for (int i = 0; i < kFile; i += 4096) sum += at[i];
          return sum;
        }
    """
    by_mmap = ("-DBLOCKS=1", "-DTAKE(bytes)=mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)", "-DGIVE=munmap")
    # malloc makes a mapping for each of these, and takes it away when the block is freed.
    by_malloc = ("-DBLOCKS=60", "-DTAKE=malloc", "-DGIVE(at, bytes)=free(at)")
    for options in (by_mmap, by_malloc):
        _, _, found = run(folder, compiled(folder, source, *options))
        memory, seen = found["metrics"]["host.memory.peak_bytes"], found["metrics"]["host.memory.seen_bytes"]
        expect(23.5 * MIB < memory < 27 * MIB and memory - seen < MIB, f"{options}: {memory}, seen {seen}: {causes(found['metrics'])}")


def before_recording(folder):
    """What a child had mapped while it was only counted has a row that says so."""
    program = compiled(folder, """
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        static void map(size_t bytes) { memset(mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, bytes); }
        int main() {
          for (int i = 0; i < 12; ++i) map(1 << 20);
          for (int i = 0; i < 100; ++i) memset(malloc(1 << 20), 1, 1 << 20);
        }
    """)
    _, said, _ = run(folder, "sh", "-c", f"{program}; true")
    expect("(mapped before it was recorded)" in said and "(no stack)" not in said, said)
    log = os.path.join(folder, "a.gplog")
    for view in (["tree"], ["report", "--full"], *(["export", form] for form in ("folded", "speedscope", "massif"))):
        shown = subprocess.run([GPUPEAK, *view, log], capture_output=True, text=True, check=True).stdout
        expect("(mapped before it was recorded)" in shown and "(no stack)" not in shown, f"{view}: {shown}")


def over_time(folder):
    """A program that maps once and then touches memory for seconds calls nothing. Its resident memory has a curve, in its log."""
    program = compiled(folder, """
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        int main() {
          enum { kSteps = 40, kStep = 4 << 20 };
          char* at = mmap(0, kSteps * kStep, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          for (int i = 0; i < kSteps; ++i) { memset(at + i * kStep, 1, kStep); usleep(100000); }
        }
    """)
    run(folder, program)
    told = subprocess.run([GPUPEAK, "timeline", "--json", os.path.join(folder, "a.gplog")], capture_output=True, text=True, check=True).stdout
    series = next(one for one in json.loads(told)["series"] if one["name"] == "host.rss")
    levels = sorted({bucket["max"] if isinstance(bucket, dict) else bucket[-1] for bucket in series["buckets"]})
    between = [level for level in levels if 20 * MIB < level < 150 * MIB]
    expect(len(between) >= 5, f"a line from 4 to 160 MiB in 4 s: {series}")


def gates(folder):
    """`check` of a run of several processes says what it can of the run, and of what it cannot, which process lacks it."""
    program = compiled(folder, open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "own_memory.c"), encoding="utf-8").read())
    log = os.path.join(folder, "a.gplog")
    run(folder, "sh", "-c", f"{program} static; {program} malloc; true")

    def check(*gates):
        done = subprocess.run([GPUPEAK, "check", log, *gates], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr
    for limit, code in (("90MiB", 0), ("40MiB", 1)):
        returned, said = check("--max", f"host.memory.peak_bytes={limit}")
        expect(returned == code, f"{limit}: {returned} {said}")
    returned, said = check("--baseline", log, "--max-increase", "host.memory.peak_bytes=3")
    expect(returned == 2 and "3 bytes, or per cent? Write 3B or 3%" in said, said)
    returned, said = check("--baseline", log, "--max-increase", "host.memory.peak_bytes=3B")
    expect(returned in (0, 1), said)
    returned, said = check("--max", "host.peak_bytes=100MiB")
    expect("was not measured" not in said or ("recorded from its start" in said and "host.memory.peak_bytes, what was resident, is" in said), said)


def merged(folder):
    """`merge` says of each process, and of all together, what `report` of the same run says; so does a partial result."""
    program = compiled(folder, open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "own_memory.c"), encoding="utf-8").read())
    _, _, found = run(folder, "sh", "-c", f"{program} static & {program} malloc; wait; {program} memfd", options=("--children", "all"))
    log, partial = (os.path.join(folder, name) for name in ("a.gplog", "a.gpmerge"))
    subprocess.run([GPUPEAK, "merge", "--partial", partial, log], check=True)
    for source in (log, partial):
        told = json.loads(subprocess.run([GPUPEAK, "merge", "--json", source], capture_output=True, check=True).stdout)
        (node,) = told["nodes"]
        (resident,) = (one for one in node["sums"] if one["scope"] == "resident")
        by_pid = {told["processes"][part["process"]]["pid"]: part["peak_bytes"] for part in resident["parts"]}
        for process in found["whole_run"]["processes"]:
            said = summary(process["log"])["metrics"]["host.memory.peak_bytes"]
            expect(by_pid[process["pid"]] == said, f"{source}: {process['pid']}: {by_pid} {said}")
        expect(len(by_pid) >= 3, f"{by_pid}")
        metrics = found["whole_run"]["metrics"]
        together = metrics["host.memory.peak_bytes"]
        # What `run` has seen of all at once may be more than the logs say, as while a shell forks. `merge` has the logs alone.
        expect(max(resident["peak_bytes"], metrics["host.memory.seen_bytes"]) == together and resident["peak_time_ns"] is None, f"{source}: {resident} {together}")
        shown = subprocess.run([GPUPEAK, "merge", source], capture_output=True, text=True, check=True).stdout
        expect(re.search(r"PEAK  host, resident: (at most )?\d+ MiB at once( \(or up to .* less\))?; the processes' own peaks", shown), shown)


# Each program holds its memory until its output is read, or for a while.
def real_programs(folder):
    text = os.path.join(folder, "text")
    with open(text, "w", encoding="utf-8") as file:
        file.writelines(f"{(i * 2654435761) % (1 << 32):08x} some text of line {i}\n" for i in range(400_000))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a", "-c", "init.defaultBranch=a"]
    repository = os.path.join(folder, "repository")
    if shutil.which("git"):
        subprocess.run([*git, "init", "-q", repository], check=True)
        shutil.copy(text, repository)
        for arguments in (("add", "text"), ("commit", "-q", "-m", "a")):
            subprocess.run([*git, *arguments], cwd=repository, check=True)
    return {
        "python3": ["python3", "-c", "import json, decimal, email, http.client, time; x = [dict(a=i, b=str(i)) for i in range(150000)]; time.sleep(0.8)"],
        "numpy": ["python3", "-c", "import numpy, time; x = numpy.ones((4000, 4000)); y = x @ x[:, :50]; time.sleep(0.8)"],
        "sort": ["sort", "-S", "100M", text],
        "sqlite3": ["sqlite3", ":memory:", "create table t(a, b); with recursive c(i) as (select 1 union all select i + 1 from c where i < 300000) "
                    "insert into t select i, hex(randomblob(50)) from c; create index x on t(b); select * from t;"],
        "git": ["git", "-C", repository, "cat-file", "--batch-all-objects", "--batch"],
        "node": ["node", "-e", "const a = []; for (let i = 0; i < 300000; ++i) a.push({i, s: 'x' + i}); const b = Buffer.alloc(50 << 20, 1); setTimeout(() => a.push(b), 900);"],
        "perl": ["perl", "-e", "my %h; $h{$_} = \"v$_\" for 1 .. 300000; select(undef, undef, undef, 0.8);"],
        "awk": ["awk", "{a[NR] = $0} END {for (i = 1; i <= NR; ++i) print a[i]}", text],
    }


def kernel_says(process):
    """The RSS of a process and of its descendants, by smaps_rollup."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as file:
            return int(re.search(r"^Rss:\s+(\d+)", file.read(), re.M)[1]) << 10
    except (OSError, TypeError):
        return 0


def look_at_program(folder, name, command):
    """Whether more than two per cent of the program's resident memory has no cause; in small programs more than a MiB."""
    log = os.path.join(folder, "a.gplog")
    process = subprocess.Popen([GPUPEAK, "run", "-q", "-o", log, "--", *command], env=ENVIRONMENT, stdout=subprocess.PIPE, cwd=folder)
    most, end = 0, time.monotonic() + 1.5
    while time.monotonic() < end and process.poll() is None:
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
            for child in file.read().split():
                most = max(most, kernel_says(child))
        time.sleep(0.02)
    process.communicate()
    found = summary(log)
    by_cause, total = causes(found["metrics"])
    expect(most / 1.07 - (5 << 20) <= total <= found["metrics"]["host.rss.peak_bytes"] + MIB, f"{name}: {total}, by the kernel {most}")
    unexplained = by_cause["unexplained_bytes"]
    share = 100 * unexplained / total
    print(f"{name}: {total >> 20} MiB, by smaps_rollup {most >> 20}, unexplained {share:.2f} %:", {k: v >> 20 for k, v in by_cause.items() if v})
    return share > 2 and unexplained > MIB


def programs(folder):
    """The causes of real programs' resident memory add up to the kernel's figure, and nearly all of it has a cause."""
    seen, left_over = 0, []
    for name, command in real_programs(folder).items():
        if not shutil.which(command[0]) or (name == "numpy" and subprocess.run(["python3", "-c", "import numpy"], capture_output=True, check=False).returncode):
            continue
        # If a program is read while it grows, more has no cause. That happens on a busy machine.
        if all(look_at_program(folder, name, command) for _ in range(3)):
            left_over.append(name)
        seen += 1
    expect(not left_over, f"more than 2 % and 1 MiB without a cause: {left_over}")
    if seen < 3:
        raise Skipped("too few of the programs are here")


run_case(globals()[sys.argv[3]])
