#!/usr/bin/env python3
"""Names of code that no file has, or none any more: code that a program made as it ran (a map for perf names it), a program that the
loader was told to run, a library whose file is gone, several functions that a linker has folded into one.

usage: code_without_files.py LIBGPUPEAK GPUPEAK made|in_container|jit_dump|registered|registered_damaged|registered_apart|numba|not_trusted|node|java|loader|gone_library|folded|pypy
"""
import glob
import os
import platform
import re
import shutil
import struct
import subprocess
import sys

from common import Skipped, environment, expect, gpupeak, needs, record, report, run_case, write

CASE = sys.argv[3]

# A function of machine code calls the allocator: push rbp; mov rbp,rsp; mov rax,keep; call rax; pop rbp; ret.
MAKER = r"""__attribute__((noinline)) void *keep(size_t bytes) { void *p = malloc(bytes); memset(p, 1, bytes); return p; }
static void *(*make(unsigned char *at))(size_t) {
  unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
  void *(*target)(size_t) = keep, *(*made)(size_t);
  memcpy(code + 6, &target, 8);
  memcpy(at, code, sizeof code);
  memcpy(&made, &at, sizeof made);
  return made;
}
"""
# Two such functions.
MAKES_CODE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
""" + MAKER + r"""int main(int argc, char **argv) {
  unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char name[64], real[80];
  snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
  snprintf(real, sizeof real, "%s%s", name, argc > 1 && !strcmp(argv[1], "link") ? ".real" : "");
  FILE *map = fopen(real, "w");
  fprintf(map, "%lx 40 JS:*decodeFrame /srv/app/t.js:4:21\n%lx 40 int T.makeThumb(int, long)\n", (long)code, (long)code + 64);
  fprintf(map, "%lx 40 JS:~first /srv/a.js:1:1\n%lx 40 JS:~second /srv/b.js:2:2\nnot a line\n", (long)code + 128, (long)code + 128);
  fclose(map);
  if (argc > 1 && !strcmp(argv[1], "link")) symlink(real, name);
  if (argc > 1 && !strcmp(argv[1], "open_to_all")) chmod(name, 0666);
  void *a = make(code)(40 << 20), *b = make(code + 64)(20 << 20), *c = make(code + 128)(10 << 20);
  puts(name);
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[1], "waits")) getchar();
  return a == b || b == c;
}
"""
# Registers the names of made code for debuggers: GDB's JIT interface.
REGISTERS_CODE = r"""
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
struct entry { struct entry *next, *previous; const char *file; uint64_t bytes; };
struct { uint32_t version, action; struct entry *relevant, *first; } __jit_debug_descriptor = {1, 0, 0, 0};
__attribute__((noinline)) void __jit_debug_register_code(void) { __asm__ volatile("" ::: "memory"); }
""" + MAKER + r"""struct file { Elf64_Ehdr head; Elf64_Shdr parts[4]; Elf64_Sym symbols[2]; char names[64]; };
static struct entry *name_code(unsigned char *code, const char *name, int relocatable) {
  struct file *f = calloc(1, sizeof *f);
  memcpy(f->head.e_ident, ELFMAG, SELFMAG);
  f->head.e_ident[EI_CLASS] = ELFCLASS64;
  f->head.e_ident[EI_DATA] = ELFDATA2LSB;
  f->head.e_type = relocatable ? ET_REL : ET_EXEC;
  f->head.e_shoff = offsetof(struct file, parts);
  f->head.e_shentsize = sizeof(Elf64_Shdr);
  f->head.e_shnum = 4;
  f->parts[0] = (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_size = 1 << 30};  // has no bytes in the file
  f->parts[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_addr = (uint64_t)code, .sh_size = 0};
  f->parts[2] = (Elf64_Shdr){.sh_type = SHT_SYMTAB, .sh_offset = offsetof(struct file, symbols), .sh_size = sizeof f->symbols, .sh_link = 3};
  f->parts[3] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct file, names), .sh_size = sizeof f->names};
  f->symbols[1] = (Elf64_Sym){.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_value = relocatable ? 0 : (uint64_t)code, .st_size = 64};
  strcpy(f->names + 1, name);
  struct entry *e = calloc(1, sizeof *e);
  *e = (struct entry){__jit_debug_descriptor.first, 0, (const char *)f, sizeof *f};
  __jit_debug_descriptor.first = __jit_debug_descriptor.relevant = e;
  __jit_debug_descriptor.action = 1;
  __jit_debug_register_code();
  return e;
}
int main(int argc, char **argv) {
  unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct entry *e = name_code(code, "_ZN4shop6decodeEi", 1);
  const char *how = argc > 1 ? argv[1] : "";
  struct file *f = (struct file *)e->file;
  if (!strcmp(how, "cycle")) e->next = e;
  if (!strcmp(how, "entry")) e->next = (void *)0x10;
  if (!strcmp(how, "list")) __jit_debug_descriptor.first = (void *)0xdeadbeef000;
  if (!strcmp(how, "file")) e->file = (void *)-4096L;
  if (!strcmp(how, "bytes")) e->bytes = UINT64_C(1) << 63, f->parts[2].sh_size = UINT64_C(1) << 62;
  if (!strcmp(how, "symbols")) f->parts[2].sh_offset = UINT64_C(1) << 63;
  if (!strcmp(how, "names")) f->symbols[1].st_name = 0xffffffff;
  if (!strcmp(how, "link")) f->parts[2].sh_link = 0xffff, f->head.e_shnum = 0xffff;
  if (!strcmp(how, "section")) f->symbols[1].st_shndx = SHN_ABS;
  void *a = make(code)(40 << 20);
  if (!strcmp(how, "later")) e = name_code(code + 64, "makeThumb", 0);
  void *b = make(code + 64)(20 << 20);
  return a == b;
}
"""
# Opens libraries, each with a list of its own, before the first of them registers anything.
OPENS_BOTH = r"""
#include <dlfcn.h>
int main(int argc, char **argv) {
  int (*both[2])(int, char **), code = 0;
  for (int i = 0; i < 2; ++i) both[i] = (int (*)(int, char **))dlsym(dlopen(argv[1 + i], RTLD_NOW), "register_code");
  for (int i = 0; i < 2; ++i) code |= both[i](2, (char *[]){"", "later"});
  return code;
}
"""
NUMBA = """
import numba, numpy
@numba.njit
def fill_the_table(n):
    a = numpy.ones(n, dtype=numpy.uint8)
    return a
kept = fill_the_table(50_000_000)
"""
LOADED = r"""
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) char *load_weights(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
int main(void) { char *volatile p = load_weights(50000000); return p == 0; }
"""
LIBRARY_PART = r"""
#include <stdlib.h>
#include <string.h>
void *plug_decode(size_t n) { void *p = malloc(n); memset(p, 3, n); return p; }
"""
OPENS_LIBRARY = r"""
#include <dlfcn.h>
#include <unistd.h>
int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW), *(*decode)(unsigned long) = library ? dlsym(library, "plug_decode") : 0;
  unlink(argv[1]);
  return argc < 2 || decode == 0 || decode(70000000) == 0;
}
"""
FOLDED = r"""
#include <cstdlib>
#include <cstring>
struct Image { char *data; };
struct Audio { char *data; };
__attribute__((noinline)) char *load_image(Image &i, size_t n) { i.data = (char *)malloc(n); memset(i.data, 1, n); return i.data; }
__attribute__((noinline)) char *load_audio(Audio &i, size_t n) { i.data = (char *)malloc(n); memset(i.data, 1, n); return i.data; }
int main() { Image a; Audio b; char *volatile p = load_image(a, 60000000), *volatile q = load_audio(b, 20000000); return p == q; }
"""
NODE = """
const keep = [];
function decodeFrame(i) { const b = Buffer.allocUnsafeSlow(200 * 1024); b.fill(i); return b; }
for (let i = 0; i < 400; i++) keep.push(decodeFrame(i & 255));
"""
JAVA = """
import java.nio.ByteBuffer;
import java.util.*;
public class T {
  static List<ByteBuffer> keep = new ArrayList<>();
  static ByteBuffer readChunk(int i) { ByteBuffer b = ByteBuffer.allocateDirect(200 * 1024); b.put(0, (byte) i); return b; }
  public static void main(String[] a) { for (int i = 0; i < 300; i++) keep.add(readChunk(i)); }
}
"""


def compile_program(folder, text, name="program.c", flags=()):
    source, program = write(folder, name, text), os.path.join(folder, name.split(".")[0])
    compiler = "g++" if name.endswith(".cc") else "gcc"
    done = subprocess.run([compiler, "-g", "-O1", "-fno-optimize-sibling-calls", "-Wno-unused-result", "-o", program, source, *flags],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"{compiler} {flags}: {done.stdout}")
    return program


def run(*command):
    code, text = gpupeak(*command)
    expect(code == 0, f"{command} gives {code}: {text}")
    return text


def rows(log):
    """The sites of the host's peak by their bytes, largest first, and the codes of the warnings."""
    summary = report(log)
    peak = next(p for p in summary["peaks"] if p["scope"] == "host")
    return [(row["site"], row["bytes"]) for row in peak["holders"]], [w["code"] for w in summary["quality"]["warnings"]]


def made_program(folder):
    if platform.machine() != "x86_64":
        raise Skipped("the test's machine code is for x86-64")
    return compile_program(folder, MAKES_CODE)


def case_made(folder):
    program, log = made_program(folder), os.path.join(folder, "x.gplog")
    bare = environment(folder, True, GPUPEAK_HOST="full") | {"GPUPEAK_OUT": os.path.join(folder, "bare.gplog")}
    maps = [record(log, program, options=("--names", "own"), GPUPEAK_HOST="full").strip(),
            subprocess.run([program], env=bare, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()]
    for of in (log, os.path.join(folder, "bare.gplog")):
        text = run("report", "--full", of)
        for name in ("keep program.c:8 ← decodeFrame t.js:4", "keep program.c:8 ← T.makeThumb", "keep program.c:8 ← first or second"):
            expect(name in text, f"{of}: {name} is missing: {text}")
        expect("decodeFrame" in run("tree", of) and "decodeFrame" in run("tree", "--flame", of), "a view has no names")
        expect("decodeFrame" not in run("report", "--confidential", of), "a confidential report has names")
    for path in maps:
        os.unlink(path)
    expect("decodeFrame t.js:4" in run("report", "--full", log), "the names have gone with the map")
    expect("decodeFrame" not in run("report", "--full", os.path.join(folder, "bare.gplog")), "names from nowhere")


def case_in_container(folder):
    """The map of a program that runs in a container, where it has another number and another /tmp. One here of that number is another's."""
    made_program(folder)
    apart = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
    if os.geteuid() != 0 or subprocess.run([*apart, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("no right to make namespaces")
    log, of_other = os.path.join(folder, "x.gplog"), "/tmp/perf-1.map"
    inside = environment(folder, True, GPUPEAK_HOST="full") | {"GPUPEAK_OUT": "/tmp/x.gplog", "GPUPEAK_SUMMARY": "off"}
    with subprocess.Popen([*apart, "sh", "-c", f"mount --bind {folder} /tmp && LD_PRELOAD=$P exec /tmp/program waits"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, env={**inside, "P": inside["LD_PRELOAD"], "LD_PRELOAD": ""}) as program:
        expect(program.stdout.readline() == of_other + "\n", "the program does not say its map")
        text = run("report", "--full", log)
        for name in ("← decodeFrame t.js:4", "← T.makeThumb"):
            expect(name in text, f"{name} is missing: {text}")
        program.communicate("\n")
    if not os.path.exists(of_other):
        shutil.copy(os.path.join(folder, "perf-1.map"), of_other)
        text = run("report", "--full", log)
        os.unlink(of_other)
        expect("decodeFrame" not in text, f"a map of another container: {text}")


def jit_dump(folder, pid, records):
    """jit-PID.dump of (begin of code, bytes, name, [(address, line, file)])."""
    with open(os.path.join(folder, f"jit-{pid}.dump"), "wb") as file:
        file.write(struct.pack("<6I2Q", 0x4a695444, 1, 40, 62, 0, pid, 0, 0))
        for begin, size, name, lines in records:
            entries = b"".join(struct.pack("<QII", at, line, 0) + of.encode("latin-1") + b"\0" for at, line, of in lines)
            if lines:
                file.write(struct.pack("<IIQQQ", 2, 32 + len(entries), 0, begin, len(lines)) + entries)
            code = struct.pack("<IIQQQQ", pid, pid, begin, begin, size, 0) + name.encode() + b"\0" + bytes(size)
            file.write(struct.pack("<IIQ", 0, 16 + len(code), 0) + code)
        file.write(struct.pack("<IIQ", 0, 1 << 30, 0) + b"cut")
    return file.name


def case_jit_dump(folder):
    """Names and lines of a jitdump in the program's folder; none of another process's. A record that is cut ends it."""
    program, log = made_program(folder), os.path.join(folder, "x.gplog")
    path = record(log, program, options=("--names", "none"), GPUPEAK_HOST="full").strip()
    with open(path, encoding="ascii") as file:
        begin = int(file.read().split()[0], 16)
    os.unlink(path)
    pid, cwd = int(re.search(r"\d+", path)[0]), os.getcwd()
    written = os.stat(log).st_mtime
    records = [(begin, 64, "T::decode(int)", [(begin, 7, "/srv/t.jl"), (begin + 10, 9, "\xff")]), (begin + 64, 64, "JS:*thumb /srv/u.js:4:1", [])]
    for made, wanted in ((jit_dump(cwd, pid, records), ("keep program.c:8 ← T::decode t.jl:9", "keep program.c:8 ← thumb u.js:4")),
                         (jit_dump(cwd, pid + 1, records), ())):
        try:
            os.utime(made, (written, written))
            text = run("report", "--full", log)
        finally:
            os.unlink(made)
        for name in wanted:
            expect(name in text, f"{name} is missing: {text}")
        expect(bool(wanted) == ("T::decode" in text), text)
    if shutil.which("node") and b"--perf-prof" in subprocess.run(["node", "--v8-options"], stdout=subprocess.PIPE, check=True).stdout:
        script = os.path.join(folder, "t.js")
        with open(script, "w", encoding="ascii") as file:
            file.write(NODE)
        log = os.path.join(folder, "node.gplog")
        record(log, "env", "-C", folder, "node", "--perf-prof", "--interpreted-frames-native-stack", script)
        expect("decodeFrame t.js:" in run("report", "--full", log), "node --perf-prof gives no names")


def registering_program(folder):
    if platform.machine() != "x86_64":
        raise Skipped("the test's machine code is for x86-64")
    return compile_program(folder, REGISTERS_CODE, flags=("-rdynamic",))


def case_registered(folder):
    """Names of code that was registered before it first ran, of relocatable and other files; JSON says where they are from."""
    log = os.path.join(folder, "x.gplog")
    record(log, registering_program(folder), "later", GPUPEAK_HOST="full")
    text = run("report", "--full", log)
    for name in ("keep program.c:12 ← shop::decode", "keep program.c:12 ← makeThumb"):
        expect(name in text, f"{name} is missing: {text}")
    sources = {f["function"]: f["name_source"] for p in report(log)["peaks"] for row in p["holders"] for f in row["stack"]}
    expect(sources["makeThumb"] == "perf_map", sources)
    expect("makeThumb" not in run("report", "--confidential", log), "a confidential report has names")


def case_registered_apart(folder):
    """Of a process in which several libraries have a list."""
    registering_program(folder)
    library = compile_program(folder, REGISTERS_CODE, "one.c", ("-Dmain=register_code", "-shared", "-fPIC", "-Wl,-Bsymbolic"))
    shutil.copy(library, library + "2")
    log, program = os.path.join(folder, "x.gplog"), compile_program(folder, OPENS_BOTH, "both.c")
    record(log, program, library, library + "2", GPUPEAK_HOST="full")
    found, _ = rows(log)
    for name, size in (("shop::decode", 80), ("makeThumb", 40)):
        expect(sum(held for site, held in found if name in site) == size << 20, f"{name}: {found}")


def case_registered_damaged(folder):
    """A list that leads nowhere, or in a circle, harms nobody: the program runs as ever, and what cannot be read has no name."""
    program = registering_program(folder)
    for how in ("cycle", "entry", "list", "file", "bytes", "symbols", "names", "link", "section"):
        log = os.path.join(folder, how + ".gplog")
        record(log, program, how, GPUPEAK_HOST="full")
        text = run("report", "--full", log)
        expect("keep program.c:12" in text, f"{how}: {text}")
        expect(("shop::decode" in text) == (how in ("cycle", "entry")), f"{how}: {text}")
        expect(os.path.getsize(log) < 1 << 20, f"{how}: the log has {os.path.getsize(log)} bytes")


def case_numba(folder):
    """LLVM registers what it compiles."""
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import numba"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("no numba for " + python)
    script, log = write(folder, "t.py", NUMBA), os.path.join(folder, "x.gplog")
    record(log, python, script)
    text = run("report", "--full", log)
    expect("__main__::fill_the_table" in text and "[abi" not in text, text)


def case_not_trusted(folder):
    program = made_program(folder)
    for how in ("link", "open_to_all", "of_before", "of_later", "of_other"):
        log = os.path.join(folder, how + ".gplog")
        path = record(log, program, how, options=("--names", "none"), GPUPEAK_HOST="full").strip()
        try:
            if how == "of_before":
                os.utime(path, (1, os.stat("/proc/self").st_mtime - 3600))
            elif how == "of_later":
                later = os.stat(path).st_mtime + 60
                os.utime(path, (later, later))
            elif how == "of_other":
                if os.geteuid() != 0:
                    continue
                os.chown(path, 12345, 12345)
            text = run("report", "--full", log)
            expect("keep program.c" in text and "decodeFrame" not in text, f"{how}: a file that is not to be trusted gives names: {text}")
        finally:
            for file in glob.glob(path + "*"):
                os.unlink(file)


def case_node(folder):
    needs("node")
    script, log = write(folder, "t.js", NODE), os.path.join(folder, "x.gplog")
    found, codes = rows_of_kept(log, "node", "--perf-basic-prof", "--interpreted-frames-native-stack", script)
    expect(found[0][0].startswith("decodeFrame t.js:3") and found[0][1] >= 400 * 200 * 1024 and "GP064" not in codes, f"{found[:3]} {codes}")
    record(log, "node", script)
    found, codes = rows(log)
    expect("GP064" in codes and "--perf-basic-prof" in run("report", "--short", log), f"{found[:3]} {codes}")


def rows_of_kept(log, *command):
    """Records the command. Its rows have only the names that `run` has kept: the map is gone."""
    record(log, *command, options=("--names", "own"))
    pid = run("export", "events", log).split(" pid ")[1].split()[0]
    os.unlink(f"/tmp/perf-{pid}.map")
    return rows(log)


def case_java(folder):
    needs("javac")
    source, log = write(folder, "T.java", JAVA), os.path.join(folder, "x.gplog")
    subprocess.run(["javac", source], check=True)
    java = ("java", "-Xmx128m", "-XX:+UseSerialGC", "-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,T.readChunk", "-XX:+PreserveFramePointer")
    found, codes = rows_of_kept(log, *java, "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-cp", folder, "T")
    expect(any(site.startswith("T.readChunk") and size >= 300 * 200 * 1024 for site, size in found), f"{found[:5]}")
    expect("GP064" not in codes, f"{codes}")
    record(log, *java, "-cp", folder, "T")
    expect("DumpPerfMapAtExit" in run("report", "--short", log), run("report", "--short", log))


def case_loader(folder):
    program, log = compile_program(folder, LOADED), os.path.join(folder, "x.gplog")
    loaders = glob.glob("/lib64/ld-linux-*.so.*") + glob.glob("/lib/ld-linux-*.so.*")
    if not loaders:
        raise Skipped("no loader here")
    record(log, loaders[0], program, GPUPEAK_HOST="full")
    found, codes = rows(log)
    expect(found[0][0].startswith("load_weights program.c:4"), f"{found[:3]}")
    expect("GP026" not in codes and f"exe = {os.path.realpath(program)}\n" in run("export", "events", log), f"{codes}")


def case_gone_library(folder):
    compile_program(folder, LIBRARY_PART, "plug.c", ("-fPIC", "-shared", "-nostartfiles"))
    program, log = compile_program(folder, OPENS_LIBRARY, flags=("-ldl",)), os.path.join(folder, "x.gplog")
    shutil.copy(os.path.join(folder, "plug"), os.path.join(folder, "plug2"))
    record(os.path.join(folder, "run.gplog"), program, os.path.join(folder, "plug2"), GPUPEAK_HOST="full")
    found, _ = rows(os.path.join(folder, "run.gplog"))  # with the line, where `run` has seen and may open it
    expect(found[0][0].startswith("plug_decode"), f"{found[:3]}")
    bare = environment(folder, True, GPUPEAK_HOST="full") | {"GPUPEAK_OUT": log}
    subprocess.run([program, os.path.join(folder, "plug")], env=bare, check=True)
    found, codes = rows(log)
    expect(found[0][0].startswith("plug_decode") and "GP025" in codes, f"{found[:3]} {codes}")
    expect("only the functions that it exports have names" in run("report", "--full", log), run("report", "--full", log))


def case_folded(folder):
    program, log = compile_program(folder, FOLDED, "folded.cc", ("-O2", "-ffunction-sections", "-fuse-ld=gold", "-Wl,--icf=all")), os.path.join(folder, "x.gplog")
    record(log, program, GPUPEAK_HOST="full")
    found, _ = rows(log)
    expect(found[0][0].startswith("load_audio or load_image") and found[0][1] >= 80000000, f"{found[:3]}")


def case_pypy(folder):
    needs("pypy3")
    log = os.path.join(folder, "x.gplog")
    record(log, "pypy3", "-c", "kept = [bytes(100000) + b'x' for _ in range(500)]")
    expect("GP040" in rows(log)[1] and "CPython" in run("report", "--full", log), run("report", "--full", log))


run_case(globals()["case_" + CASE])
