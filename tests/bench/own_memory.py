#!/usr/bin/env python3
"""The host's headline beside the kernel's word, of programs of which each takes memory in another way, and of real ones.

usage: tests/bench/own_memory.py [FOLDER] [NAME…]

FOLDER: a build folder (build/release). Each program runs twice. Alone it is stopped at its end, when the kernel says what was resident
at most (VmHWM) and what of it is files' (RssFile). Below `gpupeak run` its report says `host.memory.peak_bytes`. Prints a Markdown
table, and fails where a figure is off by more than 1 % (of 100 MiB and more) or 1 MiB and more than its own error, or where more than
2 % and 1 MiB has no cause.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from host_inputs import inputs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20
WAYS = ("malloc", "sbrk", "static", "written_file", "dev_zero", "memfd", "system_v", "growing_stack", "resting", "pkey", "reserved")
# Starts a program, stops each of its processes at its end, and prints of the largest one: name, VmHWM less RssFile.
AT_END = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned long most; static char largest[64];
static void look(int pid) {
  char path[64], line[200], name[64] = ""; unsigned long resident = 0, files = 0, huge = 0;
  sprintf(path, "/proc/%d/status", pid);
  FILE* file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    sscanf(line, "Name: %60[^\n]", name); sscanf(line, "VmHWM: %lu", &resident);
    sscanf(line, "RssFile: %lu", &files); sscanf(line, "HugetlbPages: %lu", &huge);
  }
  if (file) fclose(file);
  if (resident + huge > files && resident + huge - files > most) { most = resident + huge - files; strcpy(largest, name); }
}
int main(int count, char** arguments) {
  (void)count;
  int pid = fork(), status;
  if (pid == 0) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); execvp(arguments[2], arguments + 2); _exit(127); }
  waitpid(pid, &status, 0);
  ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
  ptrace(PTRACE_CONT, pid, 0, 0);
  for (int one; (one = waitpid(-1, &status, __WALL)) > 0;) {
    if (!WIFSTOPPED(status)) continue;
    int event = status >> 16, signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXIT || event == PTRACE_EVENT_EXEC) look(one);
    ptrace(PTRACE_CONT, one, 0, event || signal == SIGSTOP || signal == SIGTRAP ? 0 : signal);
  }
  FILE* out = fopen(arguments[1], "w");
  fprintf(out, "%lu %s\n", most << 10, largest);
  return fclose(out);
}
"""


def real_programs(folder):
    text, source = inputs(folder, ("algorithm", "iostream", "map", "random", "regex", "string", "vector"))
    sql = "create table t(a, b); with recursive c(i) as (select 1 union all select i + 1 from c where i < 300000) insert into t select i, hex(randomblob(50)) from c; create index x on t(b);"
    repository = os.path.join(folder, "repository")
    git = f"git init -q {repository} && cp {text} {repository} && cd {repository} && git add text && git -c user.name=a -c user.email=a commit -q -m a && git -c pack.threads=1 gc -q --aggressive"
    return {
        "cc1plus": ["g++", "-O1", "-S", source, "-o", "/dev/null"],
        "python3": ["python3", "-c", "import json, decimal, email; x = [dict(a=i, b=str(i)) for i in range(150000)]"],
        "numpy": ["python3", "-c", "import numpy; x = numpy.ones((4000, 4000)); y = x @ x[:, :50]"],
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
        "openssl": ["openssl", "speed", "-seconds", "1", "-bytes", "1024", "sha256"],
        "tar": ["tar", "-c", "--zstd", "-f", "/dev/null", text],
    }


def figures(summary, name):
    """The figures of the process of that name, else of the one whose report it is."""
    processes = (summary.get("whole_run") or {}).get("processes") or []
    for process in processes:
        if (process["program"] or "")[:15] == name and process.get("log"):
            return process["log"]
    return None


def main():
    words = sys.argv[1:]
    build = os.path.abspath(words.pop(0)) if words and os.path.isdir(words[0]) else os.path.join(ROOT, "build/release")
    gpupeak, wrong = os.path.join(build, "tools/gpupeak"), []
    print("| program | the kernel, alone | gpupeak | ± | off by | by cause | unexplained |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        at_end, ways = os.path.join(folder, "at_end"), os.path.join(folder, "own_memory")
        subprocess.run(["cc", "-O1", "-w", "-x", "c", "-", "-o", at_end], input=AT_END.encode(), check=True)
        subprocess.run(["cc", "-O1", "-w", "-g", os.path.join(ROOT, "tests/e2e/own_memory.c"), "-o", ways], check=True)
        programs = {way: [ways, way] for way in WAYS} | real_programs(folder)
        for name, command in programs.items():
            if (words and name not in words) or not shutil.which(command[0]):
                continue
            if name == "numpy" and subprocess.run(["python3", "-c", "import numpy"], capture_output=True, check=False).returncode:
                continue
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "cwd": folder, "check": False}
            log = os.path.join(folder, "a.gplog")
            shutil.rmtree(os.path.join(folder, "repository"), ignore_errors=True)
            subprocess.run([at_end, os.path.join(folder, "word"), *command], **quiet)
            with open(os.path.join(folder, "word"), encoding="utf-8") as file:
                alone, process = file.read().split(maxsplit=1)
            shutil.rmtree(os.path.join(folder, "repository"), ignore_errors=True)
            subprocess.run([gpupeak, "run", "-q", "--children", "all", "-o", log, "--", *command], **quiet)
            def report(one):
                return json.loads(subprocess.run([gpupeak, "report", "--json", one], capture_output=True, check=True).stdout)
            summary = report(log)
            log_of = figures(summary, process.strip())
            if log_of:
                summary = report(log_of)
            metrics, alone = summary["metrics"], int(alone)
            memory, seen = metrics["host.memory.peak_bytes"], metrics["host.memory.seen_bytes"]
            if memory is None:
                print(f"| {name} | {alone / MIB:.1f} | not measured |")
                continue
            by_cause = {key.split(".")[-1]: value or 0 for key, value in metrics.items() if key.startswith("host.resident.")}
            total, rest = by_cause.pop("total_bytes"), by_cause["unexplained_bytes"]
            rows = sum(by_cause.values()) - by_cause["files_bytes"] - by_cause["gpupeak_bytes"]
            off, share = memory - alone, 100 * rest / max(total, 1)
            print(f"| {name} | {alone / MIB:.1f} | {memory / MIB:.1f} | {(memory - seen) / MIB:.1f} | {off / MIB:+.1f} ({100 * off / alone:+.2f} %) | {rows / MIB:.1f} | {rest / MIB:.1f} ({share:.2f} %) |", flush=True)
            if abs(off) > max(alone // 100, MIB) + memory - seen or (share > 2 and rest > MIB):
                wrong.append(name)
    if wrong:
        sys.exit(f"off: {', '.join(wrong)}")


main()
