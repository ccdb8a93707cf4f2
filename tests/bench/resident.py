#!/usr/bin/env python3
"""What is resident of real programs, by cause, beside what the kernel says.

usage: tests/bench/resident.py [FOLDER] [NAME…]

FOLDER: a build folder (build/release). NAME: of the programs; all that are installed if none is named. Each runs below
`gpupeak run`. Meanwhile Rss of /proc/PID/smaps_rollup of the largest of its processes is read fifty times a second; then
the causes of that process's report, which add up to host.resident.total_bytes, are put beside it. Prints a Markdown
table, and fails where more than 2 % is unexplained.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from host_inputs import inputs, writer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20
CAUSES = (("heap", "heap_bytes"), ("kept by malloc", "kept_by_malloc_bytes"), ("mappings", "mappings_bytes"), ("stacks", "thread_stacks_bytes"),
          ("static data", "static_data_bytes"), ("files", "files_bytes"), ("shared", "shared_memory_bytes"), ("inherited", "inherited_bytes"), ("gpupeak", "gpupeak_bytes"))


def programs(folder):
    """name: the command. Each has what it takes for half a second or more, so that somebody can look."""
    file = writer(folder)
    text, source = inputs(folder, ("algorithm", "functional", "iostream", "map", "random", "regex", "string", "thread", "vector"))
    java = file("A.java", "class A { public static void main(String[] a) throws Exception { var l = new java.util.ArrayList<byte[]>();"
                          " for (int i = 0; i < 100; ++i) l.add(new byte[1 << 20]); Thread.sleep(900); } }\n")
    redis = "redis-server --port 0 --unixsocket %s/redis --save '' --enable-debug-command yes > /dev/null & p=$!; sleep 0.3; redis-cli -s %s/redis debug populate 300000 > /dev/null; sleep 0.7; kill $p; wait $p; :"
    nginx = file("nginx.conf", f"pid {folder}/nginx.pid; error_log stderr; daemon off; worker_processes 2; events {{ worker_connections 60000; }}\n"
                               f"http {{ access_log off; server {{ listen unix:{folder}/nginx; root {folder}; }} }}\n")
    postgres = os.path.join(folder, "postgres")
    initdb = shutil.which("initdb", path=os.pathsep.join([*sorted(glob.glob("/usr/lib/postgresql/*/bin")), os.environ["PATH"]])) or "initdb"
    query = "select count(*) from (select generate_series(1, 2000000) a order by 1 desc) x; select pg_sleep(0.5)"
    as_postgres = f"{initdb} -D {postgres} > /dev/null && echo '{query}' | {os.path.dirname(initdb)}/postgres --single -D {postgres} -c work_mem=200MB postgres > /dev/null"
    cmake = os.path.join(folder, "cmake")
    os.mkdir(cmake)
    with open(os.path.join(cmake, "CMakeLists.txt"), "w", encoding="utf-8") as out:
        out.write(f'cmake_minimum_required(VERSION 3.18)\nproject(a NONE)\nfile(STRINGS "{text}" lines)\nset(more "${{lines}}")\nlist(REVERSE more)\nexecute_process(COMMAND sleep 0.7)\n')
    targets = "".join(f"build out{i}: r in{i % 1000}\n" for i in range(100_000))
    ninja = file("build.ninja", "rule r\n  command = true\nrule s\n  command = sleep 0.8\nbuild all: s | in\nbuild in: phony\n" + targets + "default all\n")
    lua = shutil.which("lua5.4") or shutil.which("lua5.3") or "lua"
    sql = ("create table t(a, b); with recursive c(i) as (select 1 union all select i + 1 from c where i < 300000) "
           "insert into t select i, hex(randomblob(50)) from c; create index x on t(b); select count(*) from t a, t b where a.a < 300 and b.b > a.b;")
    return {
        "python3": ["python3", "-c", "import json, decimal, email, time; x = [dict(a=i, b=str(i)) for i in range(150000)]; time.sleep(0.8)"],
        "perl": ["perl", "-e", "my %h; $h{$_} = \"v$_\" for 1 .. 300000; select(undef, undef, undef, 0.8);"],
        "cc1plus": ["g++", "-O1", "-S", source, "-o", "/dev/null"],
        "clang": ["clang", "-O2", "-S", source, "-o", "/dev/null"],
        "ld": ["g++", "-g", source, "-o", os.path.join(folder, "a.out"), "-static"],
        "node": ["node", "-e", "const a = []; for (let i = 0; i < 300000; ++i) a.push({i, s: 'x' + i}); const b = Buffer.alloc(50 << 20, 1); setTimeout(() => a.push(b), 900);"],
        "git": ["sh", "-c", f"git init -q r && cp {text} r/ && cd r && git add text && git -c user.name=a -c user.email=a commit -qm a && git -c pack.threads=2 repack -adfq --window=250 && (git cat-file --batch < /dev/null; sleep 0.5)"],
        "sort": ["sort", "-S", "100M", "--parallel=2", "-k3", text, "-o", os.path.join(folder, "sorted")],
        "sqlite3": ["sqlite3", ":memory:", sql],
        "redis-server": ["sh", "-c", redis % (folder, folder)],
        "postgres": ["sh", "-c", as_postgres],
        "nginx": ["sh", "-c", f"nginx -g 'user root;' -c {nginx} -p {folder} & p=$!; sleep 1; kill $p; wait $p; :"],
        "convert": ["/usr/bin/convert", "-size", "2000x2000", "plasma:", "-blur", "0x2", os.path.join(folder, "a.png")],
        "ffmpeg": ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=duration=2:size=1280x720:rate=30", "-c:v", "mpeg4", "-f", "null", "-"],
        "gdb": ["gdb", "-q", "-batch", "-nx", "-ex", "info functions main", "-ex", "shell sleep 0.7", shutil.which("gdb") or "gdb"],
        "cmake": ["cmake", "-S", cmake, "-B", os.path.join(folder, "cmake-build")],
        "ninja": ["ninja", "-f", ninja, "-C", folder],
        "xz": ["sh", "-c", f"xz -T2 -6 -c {text} > /dev/null"],
        "java": ["java", "-Xmx300m", java],
        "lua": [lua, "-e", "local t = {} for i = 1, 1000000 do t[i] = 'v' .. i end local c = os.clock() while os.clock() < c + 0.5 do end"],
        "ruby": ["ruby", "-e", "a = (0..500_000).map { |i| \"v#{i}\" }; sleep 0.8"],
        "tclsh": ["sh", "-c", "echo 'for {set i 0} {$i < 400000} {incr i} {set a($i) v$i}; after 800' | tclsh"],
        "awk": ["gawk", "{a[NR] = $0} END {for (i = 1; i <= NR; ++i) n += length(a[i]); system(\"sleep 0.7\")}", text],
        "php": ["php", "-r", "$a = []; for ($i = 0; $i < 1000000; ++$i) $a[] = \"v$i\"; usleep(800000);"],
        "rustc": ["rustc", "--print", "cfg"],
        "vim": ["vim", "-es", "-u", "NONE", "-c", "sleep 700m", "-c", "qa!", text],
    }


def descendants(process):
    found, next_ones = [], [process]
    while next_ones:
        one = next_ones.pop()
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children", encoding="utf-8") as file:
                    next_ones += [int(child) for child in file.read().split()]
        except OSError:
            pass
        found.append(one)
    return found[1:]


def kernel_says(process):
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as file:
            return int(re.search(r"^Rss:\s+(\d+)", file.read(), re.M)[1]) << 10
    except (OSError, TypeError):
        return 0


def run(gpupeak, name, command, folder):
    """The largest process's pid, what the kernel said of it at most, and its report; or what went wrong."""
    place = os.path.join(folder, f"log.{name}")  # another user's is not written over
    os.makedirs(place, exist_ok=True)
    os.chmod(place, 0o777)
    log = os.path.join(place, "a.gplog")
    # PostgreSQL refuses to run as root.
    other_user = ["runuser", "-u", "postgres", "--"] if name == "postgres" and os.geteuid() == 0 else []
    with open(os.path.join(folder, "errors"), "w", encoding="utf-8") as errors:
        process = subprocess.Popen([*other_user, gpupeak, "run", "-q", "-o", log, "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, cwd=folder)
    most = {}
    while process.poll() is None:
        for one in descendants(process.pid):
            most[one] = max(most.get(one, 0), kernel_says(one))
        time.sleep(0.02)
    if process.returncode != 0:
        with open(os.path.join(folder, "errors"), encoding="utf-8") as errors:
            return f"ends with {process.returncode}: {errors.read()[-200:]}"
    pid = max(most, key=most.get)
    for one in (f"{log}#{pid}", log):
        report = subprocess.run([gpupeak, "report", "--json", one], capture_output=True, check=False)
        if report.returncode == 0 and json.loads(report.stdout)["run"]["pid"] == pid:
            return pid, most[pid], json.loads(report.stdout)
    return f"pid {pid}, of {most[pid] / MIB:.1f} MiB, left no log"


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    words = sys.argv[1:]
    build = os.path.abspath(words.pop(0)) if words and os.path.isdir(words[0]) else os.path.join(ROOT, "build/release")
    gpupeak, wrong = os.path.join(build, "tools/gpupeak"), []
    print(f"| program | smaps_rollup | causes together | {' | '.join(name for name, _ in CAUSES)} | unexplained |")
    print("|---" * (len(CAUSES) + 4) + "|")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        for name, command in programs(folder).items():
            if (words and name not in words) or (name not in ("cc1plus", "ld", "lua", "postgres", "git", "awk", "xz") and not shutil.which(name)) or not shutil.which(command[0]):
                continue
            found = run(gpupeak, name, command, folder)
            if isinstance(found, str):
                print(f"| {name} | {found.strip()} |", flush=True)
                continue
            pid, most, report = found
            metrics = {key.removeprefix("host.resident."): value for key, value in report["metrics"].items() if key.startswith("host.resident.")}
            total, rest = metrics.get("total_bytes"), metrics.get("unexplained_bytes")
            if not total:
                print(f"| {name} | {most / MIB:.1f} | not measured |", flush=True)
                continue
            cells = [f"{metrics[key] / MIB:.1f}" if metrics.get(key) is not None else "" for _, key in CAUSES]
            share = None if rest is None else 100 * rest / total
            print(f"| {name} | {most / MIB:.1f} | {total / MIB:.1f} | {' | '.join(cells)} | {'not known' if share is None else f'{rest / MIB:.1f} ({share:.2f} %)'} |", flush=True)
            if share is None or share > 2:
                wrong.append(name)
    if wrong:
        sys.exit(f"more than 2 % without a cause: {', '.join(wrong)}")


main()
