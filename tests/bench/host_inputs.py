"""What the programs of own_memory.py and resident.py read: a text of 400,000 lines, and a source in C++."""
import glob
import os
import shutil
import subprocess


def writer(folder):
    """A function file(name, text) that writes a file there and returns its path."""
    def file(name, text):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path
    return file


def inputs(folder, headers):
    """The paths of the text and of the source, which includes `headers`."""
    file = writer(folder)
    text = file("text", "".join(f"{(i * 2654435761) % (1 << 32):08x} some text of line {i}\n" for i in range(400_000)))
    includes = "\n".join(f"#include <{name}>" for name in headers)
    source = file("a.cc", includes + '\nint main() { std::regex r("a+"); std::map<std::string, std::vector<int>> m; m["a"] = {1}; return static_cast<int>(m.size()); }\n')
    return text, source


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
    assembly = os.path.join(folder, "a.s")
    subprocess.run(["g++", "-g", "-O1", "-S", source, "-o", assembly], check=True)
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
        "guile": ["guile", "-c", "(define l (iota 1000000)) (define v (list->vector (map number->string l)))"],
        "jq": ["jq", "-R", "-n", "[inputs | split(\" \")] | length", text],
        "bzip2": ["bzip2", "-k", "-c", text],
        "zstd": ["zstd", "-19", "-q", "-c", text],
        "openssl": ["openssl", "speed", "-seconds", "1", "-bytes", "1024", "sha256"],
        "as": ["g++", "-g", "-c", assembly, "-o", "/dev/null"],
        "objdump": ["objdump", "-d", "--no-show-raw-insn", shutil.which("bash")],
        "readelf": ["readelf", "-wi", "-a", shutil.which("ninja") or shutil.which("bash")],
        "bash": ["bash", "-c", "for i in {1..100000}; do a[i]=v$i; done"],
        "bc": ["sh", "-c", "echo '2^400000' | bc"],
        "curl": ["curl", "-s", f"file://{text}", "-o", "/dev/null"],
        "diff": ["sh", "-c", f"tac {text} | diff {text} - ; :"],
        "find": ["find", "/usr/share", "-newer", "/etc/passwd"],
        "apt-cache": ["apt-cache", "search", "memory"],
        "numpy": ["python3", "-c", "import numpy; x = numpy.ones((4000, 4000)); y = x @ x[:, :50]"],
    }
