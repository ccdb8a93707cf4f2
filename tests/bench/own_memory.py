#!/usr/bin/env python3
"""The host's headline beside the kernel's word, of programs of which each takes memory in another way, and of real ones.

usage: tests/bench/own_memory.py [FOLDER] [NAME…]

FOLDER: a build folder (build/release). Each program runs twice. Alone it is stopped before each call that may give memory back, and
at its end, when the kernel says what is resident and no file's (RssAnon, RssShmem, HugetlbPages): the most of these is the truth. Beside
it VmHWM less RssFile at the end, which is less where the last pages of files came behind the peak. Below `gpupeak run` its report says
`host.memory.peak_bytes`, and `host.memory.seen_bytes`, which is less by its error. Where a figure is off by more than 1 %
(or 256 KiB) and more than its own error, both look at one run: programs with a garbage collector take now more, now less. Prints a
Markdown table, and fails where it is off there, too, or where more than 2 % and 1 MiB has no cause: unexplained, or not looked at.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from host_inputs import inputs, programs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20
WAYS = ("malloc", "sbrk", "static", "written_file", "dev_zero", "memfd", "system_v", "growing_stack", "resting", "pkey", "reserved")
# Starts a program, stops each of its processes before every call that may give memory back, and at its end, and prints of the largest
# one: the most that was anonymous, shared or huge then, VmHWM, RssFile at the end, and its name. The kernel counts exactly at each stop
# (Linux 6.16 and later); only calls make memory less.
MOST = r"""
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static struct one { int process; unsigned long own, peak, files; char name[64]; } all[65536];
static int known;
static void look(int thread) {
  char path[64], line[200]; struct one seen = {thread}; unsigned long part;
  sprintf(path, "/proc/%d/status", thread);
  FILE* file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    sscanf(line, "Name: %60[^\n]", seen.name); sscanf(line, "Tgid: %d", &seen.process);
    sscanf(line, "VmHWM: %lu", &seen.peak); sscanf(line, "RssFile: %lu", &seen.files);
    if (sscanf(line, "RssAnon: %lu", &part) == 1 || sscanf(line, "RssShmem: %lu", &part) == 1 || sscanf(line, "HugetlbPages: %lu", &part) == 1) seen.own += part;
  }
  if (file) fclose(file);
  struct one* at = all + known;
  for (int i = known; i-- > 0 && at == all + known;) if (all[i].process == seen.process) at = all + i;
  if (at == all + known && ++known == 65536) exit(1);
  unsigned long own = at->own;
  if (seen.peak) *at = seen;
  if (own > at->own) at->own = own;
}
static void trace_me(void) {
  static const int calls[] = {SYS_munmap, SYS_brk, SYS_madvise, SYS_mremap, SYS_shmdt, SYS_exit, SYS_exit_group, SYS_execve, SYS_execveat, SYS_ftruncate, SYS_fallocate};
  struct sock_filter code[64]; int n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < sizeof calls / sizeof *calls; ++i) {
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  }
  code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3]));
  code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_FIXED, 0, 1);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {(unsigned short)n, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(126);
}
int main(int count, char** arguments) {
  (void)count;
  int pid = fork(), status;
  if (pid == 0) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); trace_me(); execvp(arguments[2], arguments + 2); _exit(127); }
  waitpid(pid, &status, 0);
  ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
  ptrace(PTRACE_CONT, pid, 0, 0);
  for (int one; (one = waitpid(-1, &status, __WALL)) > 0;) {
    if (!WIFSTOPPED(status)) continue;
    int event = status >> 16, signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXIT || event == PTRACE_EVENT_SECCOMP) look(one);
    ptrace(PTRACE_CONT, one, 0, event || signal == SIGSTOP || signal == SIGTRAP ? 0 : signal);
  }
  struct one* most = all;
  for (int i = 0; i < known; ++i) if (all[i].own > most->own) most = all + i;
  FILE* out = fopen(arguments[1], "w");
  fprintf(out, "%lu %lu %lu %s\n", most->own << 10, most->peak << 10, most->files << 10, most->name);
  return fclose(out);
}
"""


def real_programs(folder):
    text, source = inputs(folder, ("algorithm", "iostream", "map", "random", "regex", "string", "vector"))
    sql = "create table t(a, b); with recursive c(i) as (select 1 union all select i + 1 from c where i < 300000) insert into t select i, hex(randomblob(50)) from c; create index x on t(b);"
    repository = os.path.join(folder, "repository")
    git = f"git init -q {repository} && cp {text} {repository} && cd {repository} && git add text && git -c user.name=a -c user.email=a commit -q -m a && git -c pack.threads=1 gc -q --aggressive"
    return programs(folder) | {
        "cc1plus": ["g++", "-O1", "-S", source, "-o", "/dev/null"],
        "python3": ["python3", "-c", "import json, decimal, email; x = [dict(a=i, b=str(i)) for i in range(150000)]"],
        "perl": ["perl", "-e", "my %h; $h{$_} = \"v$_\" for 1 .. 300000;"],
        "sqlite3": ["sqlite3", ":memory:", sql],
        "git": ["sh", "-c", git],
        "sort": ["sort", "-S", "100M", "-o", "/dev/null", text],
        "awk": ["awk", "{a[NR] = $0} END {for (i = 1; i <= NR; ++i) print a[i]}", text],
        "xz": ["xz", "-T1", "-k", "-c", text],
        "node": ["node", "-e", "const a = []; for (let i = 0; i < 300000; ++i) a.push({i, s: 'x' + i}); const b = Buffer.alloc(50 << 20, 1); a.push(b);"],
        "java": ["java", "-Xmx256m", "-version"],
        "cmake": ["cmake", "--help-full"],
        "gdb": ["gdb", "-batch", "-ex", "info functions main", shutil.which("python3") or "python3"],
        "tar": ["tar", "-c", "--zstd", "-f", "/dev/null", text],
    }


def figures(gpupeak, log):
    """The metrics of the run's process that had most resident and of its own, and its log; none: not measured."""
    def report(one):
        made = subprocess.run([gpupeak, "report", "--json", one], capture_output=True, check=False)
        return {"log": one, "metrics": {}} | (json.loads(made.stdout) if made.returncode == 0 else {})
    summary = report(log)
    processes = (summary.get("whole_run") or {}).get("processes") or []
    largest = sorted(processes, key=lambda process: process["rss_peak_bytes"] or 0)[-4:]
    found = [report(process["log"]) for process in largest] if len(processes) > 1 else [summary]
    most = max((one for one in found if one["metrics"].get("host.memory.peak_bytes")), key=lambda one: one["metrics"]["host.memory.peak_bytes"], default=None)
    return (most["metrics"], most["log"]) if most else (None, log)


def gpupeaks(gpupeak, log):
    """What the library had for itself of the process's own memory, as it says itself."""
    events = subprocess.run([gpupeak, "export", "events", log], capture_output=True, text=True, check=False).stdout
    return max((int(own) for own in re.findall(r" resident .* own (\d+) free_in_malloc", events)), default=0)


def main():
    words = sys.argv[1:]
    build = os.path.abspath(words.pop(0)) if words and os.path.isdir(words[0]) else os.path.join(ROOT, "build/release")
    gpupeak, wrong, count = os.path.join(build, "tools/gpupeak"), [], 0
    print("| program | alone | VmHWM less files | gpupeak | ± | off by | rows | unexplained | not looked at |\n|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        most, ways, word = (os.path.join(folder, name) for name in ("most", "own_memory", "word"))
        subprocess.run(["cc", "-O1", "-w", "-x", "c", "-", "-o", most], input=MOST.encode(), check=True)
        subprocess.run(["cc", "-O1", "-w", "-g", os.path.join(ROOT, "tests/e2e/own_memory.c"), "-o", ways], check=True)
        for name, command in ({way: [ways, way] for way in WAYS} | real_programs(folder)).items():
            if (words and name not in words) or not shutil.which(command[0]):
                continue
            if name == "numpy" and subprocess.run(["python3", "-c", "import numpy"], capture_output=True, check=False).returncode:
                continue
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "cwd": folder, "check": False}
            place = os.path.join(folder, f"log.{name}")
            os.makedirs(place)
            os.chmod(place, 0o777)
            log = os.path.join(place, "a.gplog")
            # PostgreSQL refuses to run as root.
            other_user = ["runuser", "-u", "postgres", "--"] if name == "postgres" and os.geteuid() == 0 else []

            def run(*first):
                for made in ("repository", "r", "postgres", "cmake-build", ".ninja_log"):
                    subprocess.run(["rm", "-rf", os.path.join(folder, made)], check=True)
                open(word, "a", encoding="utf-8").close()
                os.chmod(word, 0o666)
                subprocess.run([*other_user, *first, *command], **quiet)
                with open(word, encoding="utf-8") as file:
                    own, peak, files, process = file.read().split(maxsplit=3)
                return int(own), int(peak) - int(files), process
            below = [gpupeak, "run", "-q", "--children", "all", "-o", log, "--"]
            alone, by_end, process = run(most, word)
            run(*below)
            metrics, _ = figures(gpupeak, log)
            start = f"| {name} ({process.strip()}) | {alone / MIB:.1f} | {by_end / MIB:.1f} |"
            if metrics is None:
                print(f"{start} not measured |")
                wrong.append(name)
                continue
            count += 1
            memory, seen = metrics["host.memory.peak_bytes"], metrics["host.memory.seen_bytes"]
            by_cause = {key.split(".")[-1]: value or 0 for key, value in metrics.items() if key.startswith("host.resident.")}
            total, rest = by_cause.pop("total_bytes"), by_cause["unexplained_bytes"]
            rows = sum(by_cause.values()) - by_cause["files_bytes"] - by_cause["gpupeak_bytes"]
            off, share = memory - alone, 100 * rest / max(total, 1)
            is_off = abs(off) > max(alone // 100, MIB // 4) + memory - seen
            same = ""
            if is_off:  # the program may not do the same twice
                both, _, _ = run(*below, most, word)
                again, its_log = figures(gpupeak, log)
                off_there = again["host.memory.peak_bytes"] + gpupeaks(gpupeak, its_log) - both
                same = f"; in the same run {100 * off_there / both:+.2f} %"
                is_off = abs(off_there) > max(both // 100, MIB // 4) + again["host.memory.peak_bytes"] - again["host.memory.seen_bytes"]
            not_seen = max(0, memory - rows)
            print(f"{start} {memory / MIB:.1f} | {(memory - seen) / MIB:.1f} | {off / MIB:+.1f} ({100 * off / alone:+.2f} %{same}) | {rows / MIB:.1f} | {rest / MIB:.1f} ({share:.2f} %) | "
                  f"{not_seen / MIB:.1f} ({100 * not_seen / memory:.2f} %) |", flush=True)
            if is_off or rest + not_seen > max(memory // 50, MIB):
                wrong.append(name)
    print(f"{count} programs")
    if wrong:
        sys.exit(f"off: {', '.join(wrong)}")


main()
