#!/usr/bin/env python3
"""Programs of many languages, compiled as people do: the rows of the peak have the program's own functions and lines, and not its
runtime's allocator (rules/languages.toml). Each program knows its answer: `fill_the_table` holds 300 blocks of 200 kB, `build_index`
one of 40 MB, at lines that are marked.

usage: languages.py LIBGPUPEAK GPUPEAK LANGUAGE…|all   `all` prints a row for each build, for what is installed here; docs/symbols.md sums them up
"""
import collections
import os
import re
import shutil
import subprocess
import sys

from common import Failed, Skipped, expect, gpupeak, needs, record, report, run_case, write

TABLE, INDEX = 300 * 200_000, 40_000_000
STRIPPED = "objcopy --only-keep-debug t t.debug && strip t && objcopy --add-gnu-debuglink=t.debug t"

# The command that says its version, its file, the ways to build it, and what its functions are called.
Language = collections.namedtuple("Language", "version file text ways table index", defaults=("fill_the_table", "build_index"))
# How it is built, what its rows have ("lines", "names" or "none"), what gpupeak says where they have no names, how it is run.
Way = collections.namedtuple("Way", "build has says run", defaults=("lines", "", "./t"))

C = """
#include <stdlib.h>
#include <string.h>
char *volatile table[300], *volatile list;
__attribute__((noinline)) void fill_the_table(int n) {
  for (int i = 0; i < n; i++) {
    table[i] = malloc(200000);  // TABLE
    memset(table[i], 1, 200000);
  }
}
__attribute__((noinline)) void build_index(int n) {
  list = malloc(n);  // INDEX
  memset(list, 1, n);
}
int main(void) {
  fill_the_table(300);
  build_index(40000000);
  return 0;
}
"""
CXX = """
#include <memory>
#include <string>
#include <vector>
namespace shop {
template <class T>
struct Store {
  std::vector<std::vector<T>> table;
  std::string list;
  __attribute__((noinline)) void fill_the_table(int n) {
    table.reserve(n);
    for (int i = 0; i < n; i++)
      table.emplace_back(200000 / sizeof(T));  // TABLE
  }
  __attribute__((noinline)) char build_index(int n) {
    list.assign(n, 'x');  // INDEX
    return list[5];
  }
};
}  // namespace shop
int main() {
  auto store = std::make_unique<shop::Store<double>>();
  store->fill_the_table(300);
  return store->build_index(40000000) != 'x';
}
"""
GLIB = C.replace("#include <stdlib.h>", "#include <glib.h>").replace("malloc(", "g_malloc(")
TALLOC = C.replace("#include <stdlib.h>", "#include <talloc.h>").replace("malloc(", "talloc_size(NULL, ")
APR = C.replace("#include <stdlib.h>", "#include <apr_general.h>\n#include <apr_pools.h>\napr_pool_t *pool;").replace(
    "malloc(", "apr_palloc(pool, ").replace("  fill_the_table(300);", "  apr_initialize();\n  apr_pool_create(&pool, 0);\n  fill_the_table(300);")
JAVA = """
import java.nio.ByteBuffer;
import java.util.*;
public class T {
  static List<ByteBuffer> table = new ArrayList<>();
  static ByteBuffer list;
  static ByteBuffer fillTheTable(int i) {
    ByteBuffer b = ByteBuffer.allocateDirect(200_000);
    b.put(0, (byte) i);
    return b;
  }
  static ByteBuffer buildIndex() {
    return ByteBuffer.allocateDirect(40_000_000);
  }
  public static void main(String[] a) {
    for (int i = 0; i < 300; i++) table.add(fillTheTable(i));
    list = buildIndex();
  }
}
"""
NODE = """
const table = [];
function fillTheTable(i) { const b = Buffer.allocUnsafeSlow(200000); b.fill(i); return b; }  // TABLE
function buildIndex() { const b = Buffer.allocUnsafeSlow(40000000); b.fill(1); return b; }  // INDEX
for (let i = 0; i < 300; i++) table.push(fillTheTable(i & 255));
table.push(buildIndex());
"""
PYTHON = """
def fill_the_table(n):
    return [bytearray(200_000) for _ in range(n)]  # TABLE
def build_index(n):
    return bytearray(n)  # INDEX
table = fill_the_table(300)
index = build_index(40_000_000)
"""
GO = """
package main
%s
var table [][]byte
var list []byte
//go:noinline
func fillTheTable(n int) {
	for i := 0; i < n; i++ {
		table = append(table, make([]byte, 200000)) // TABLE
	}
}
//go:noinline
func buildIndex(n int) {
	list = make([]byte, n) // INDEX
}
func main() {
	buildIndex(40000000)
	fillTheTable(300)
	for i := range table { for j := range table[i] { table[i][j] = 1 } }
	for j := range list { list[j] = 1 }
}
"""
RUST = """
use std::collections::HashMap;
#[inline(never)]
fn fill_the_table(n: usize) -> HashMap<usize, Vec<u8>> {
    let mut table = HashMap::new();
    for i in 0..n {
        table.insert(i, vec![1u8; 200_000]); // TABLE
    }
    table
}
#[inline(never)]
fn build_index(n: usize) -> String {
    "x".repeat(n) // INDEX
}
fn main() {
    let table = fill_the_table(300);
    let list = build_index(40_000_000);
    println!("{}", table.len() + list.len());
}
"""
ADA = """
procedure T is
   type Bytes is array (Positive range <>) of Character;
   type Ref is access Bytes;
   type Table is array (1 .. 300) of Ref;
   Kept : Table;
   List : Ref;
   procedure Fill_The_Table is
   begin
      for I in Table'Range loop
         Kept (I) := new Bytes'(1 .. 200_000 => 'x'); -- TABLE
      end loop;
   end Fill_The_Table;
   procedure Build_Index (N : Positive) is
   begin
      List := new Bytes'(1 .. N => 'x'); -- INDEX
      List (5) := 'y';
   end Build_Index;
begin
   Fill_The_Table;
   Build_Index (40_000_000);
   if List (7) = 'q' then
      raise Program_Error;
   end if;
end T;
"""
D = """
__gshared ubyte[][] table;
__gshared ubyte[] list;
pragma(inline, false) void fillTheTable(int n) {
  foreach (i; 0 .. n) {
    auto b = new ubyte[200_000]; // TABLE
    b[] = 1;
    table ~= b;
  }
}
pragma(inline, false) void buildIndex(size_t n) {
  list = new ubyte[n]; // INDEX
  list[] = 1;
}
void main() { fillTheTable(300); buildIndex(40_000_000); }
"""
FORTRAN = """
module m
  type row
    integer(1), allocatable :: cells(:)
  end type
  type(row) :: table(300)
  real(8), allocatable :: list(:)
contains
  subroutine fill_the_table(n)
    integer, intent(in) :: n
    integer :: i
    do i = 1, n
      allocate(table(i)%cells(200000)) ! TABLE
      table(i)%cells = 1
    end do
  end subroutine
  subroutine build_index(n)
    integer, intent(in) :: n
    allocate(list(n)) ! INDEX
    list = 1
  end subroutine
end module
program f
  use m
  call fill_the_table(300)
  call build_index(5000000)
  if (list(1) > 2) print *, list(1)
end program
"""
NIM = """
proc fillTheTable(n: int): seq[string] =
  for i in 0 ..< n:
    var row = newString(200_000) # TABLE
    row[1] = 'x'
    result.add move(row)
proc buildIndex(n: int): seq[int] =
  result = newSeq[int](n) # INDEX
  result[1] = 5
let a = fillTheTable(300)
let b = buildIndex(5_000_000)
echo a.len + b.len
"""
OCAML = """
let [@inline never] fill_the_table n =
  let table = Array.make n Bytes.empty in
  for i = 0 to n - 1 do
    table.(i) <- Bytes.make 200_000 'x' (* TABLE *)
  done;
  table
let [@inline never] build_index n =
  let list = Array.make n 0 in (* INDEX *)
  list.(1) <- 5; list
let () = let a = fill_the_table 300 in let b = build_index 5_000_000 in print_int (Array.length a + Array.length b)
"""
PASCAL = """
program t;
uses %s;
type TBytes = array of byte;
var table: array[1..300] of TBytes; list: TBytes;
procedure FillTheTable(n: integer);
var i: integer;
begin
  for i := 1 to n do begin
    SetLength(table[i], 200000); { TABLE }
    FillChar(table[i][0], 200000, 1);
  end;
end;
procedure BuildIndex(n: longint);
begin
  SetLength(list, n); { INDEX }
  FillChar(list[0], n, 1);
end;
begin
  FillTheTable(300);
  BuildIndex(40000000);
end.
"""
VALA = """
class Store : Object {
  uint8[,] table;
  GenericArray<Bytes> rows = new GenericArray<Bytes> ();
  public void fill_the_table (int n) {
    for (int i = 0; i < n; i++) {
      var b = new uint8[200000]; // TABLE
      rows.add (new Bytes.take ((owned) b));
    }
  }
  public void build_index (int n) {
    table = new uint8[n / 1000, 1000]; // INDEX
  }
}
int main () {
  var s = new Store ();
  s.fill_the_table (300);
  s.build_index (40000000);
  return 0;
}
"""
OBJC = """
#import <objc/Object.h>
#include <objc/runtime.h>
#include <stdlib.h>
#include <string.h>
@interface Store : Object { @public char *table[300]; char *list; }
- (void)fillTheTable:(int)n;
- (void)buildIndex:(int)n;
@end
@implementation Store
- (void)fillTheTable:(int)n {
  for (int i = 0; i < n; i++) {
    table[i] = objc_malloc(200000);  // TABLE
    memset(table[i], 1, 200000);
  }
}
- (void)buildIndex:(int)n {
  list = objc_calloc(n, 1);  // INDEX
  memset(list, 1, n);
}
@end
int main(void) {
  Store *s = class_createInstance(objc_getClass("Store"), 0);
  [s fillTheTable:300];
  [s buildIndex:40000000];
  return 0;
}
"""
HASKELL = """
import qualified Data.IORef as R
import Foreign
fillTheTable :: Int -> IO [Ptr Word8]
fillTheTable n = mapM (\\_ -> mallocBytes 200000) [1 .. n] -- TABLE
{-# NOINLINE fillTheTable #-}
buildIndex :: Int -> IO (Ptr Word8)
buildIndex n = do -- INDEX
  p <- mallocBytes n
  fillBytes p 1 n
  return p
{-# NOINLINE buildIndex #-}
main :: IO ()
main = do
  a <- fillTheTable 300
  b <- buildIndex 40000000
  r <- R.newIORef (a, b)
  (x, _) <- R.readIORef r
  print (length x)
"""
JVM = "java -Xmx128m -Xcomp -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,T.* -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -cp . T"

LANGUAGES = {
    "c": Language("gcc -dumpfullversion", "t.c", C, [Way(f"gcc {f} -o t t.c") for f in ("-g -O0", "-g -O2", "-g -O3 -flto", "-g1 -Os")]
                  + [Way("gcc -g -O2 -o t t.c && " + STRIPPED), Way("gcc -O2 -o t t.c", "names")]),
    "clang": Language("clang -dumpversion", "t.c", C, [Way("clang -g -O2 -o t t.c"), Way("clang -g -O2 -gsplit-dwarf -o t t.c")]),
    "c++": Language("g++ -dumpfullversion", "t.cc", CXX, [Way(f"g++ {f} -o t t.cc") for f in ("-g -O0", "-g -O2", "-g -O3 -flto", "-g -O2 -gz -gsplit-dwarf")]
                    + [Way("g++ -g -O2 -o t t.cc && " + STRIPPED), Way("g++ -O2 -o t t.cc", "names")]),
    "clang++": Language("clang++ -dumpversion", "t.cc", CXX, [Way("clang++ -g -O2 -o t t.cc"), Way("clang++ -g -O1 -o t t.cc")]),
    "glib": Language("pkg-config --modversion glib-2.0", "t.c", GLIB, [Way("gcc -g -O2 -o t t.c $(pkg-config --cflags --libs glib-2.0)")]),
    "talloc": Language("pkg-config --modversion talloc", "t.c", TALLOC, [Way("gcc -g -O2 -o t t.c -ltalloc")]),
    "apr": Language("pkg-config --modversion apr-1", "t.c", APR, [Way("gcc -g -O2 -o t t.c $(pkg-config --cflags --libs apr-1)")]),
    "fortran": Language("gfortran -dumpfullversion", "t.f90", FORTRAN, [Way("gfortran -g -O0 -o t t.f90"), Way("gfortran -g -O2 -o t t.f90"), Way("gfortran -O3 -o t t.f90", "names")]),
    "go": Language("go version", "t.go", GO % 'import "C"', [Way("go build -o t t.go", "none")], table="fillTheTable", index="buildIndex"),
    "go_without_cgo": Language("go version", "t.go", GO % "", [Way("CGO_ENABLED=0 go build -o t t.go", "none", "static")], table="fillTheTable", index="buildIndex"),
    "gccgo": Language("gccgo-12 -dumpfullversion", "t.go", GO % "", [Way("gccgo-12 -g -O2 -o t t.go", "none")], table="fillTheTable", index="buildIndex"),
    "rust": Language("rustc --version", "t.rs", RUST, [Way("rustc -g -o t t.rs"), Way("rustc -O -g -o t t.rs"), Way("rustc -O -g -C symbol-mangling-version=v0 -C panic=abort -o t t.rs"), Way("rustc -O -o t t.rs", "names")]),
    "ada": Language("gnatmake --version", "t.adb", ADA, [Way("gnatmake -q -g -O0 t.adb"), Way("gnatmake -q -g -O2 t.adb")]),
    "d": Language("gdc -dumpfullversion", "t.d", D, [Way("gdc -g -O0 -o t t.d"), Way("gdc -g -O2 -o t t.d")], table="fillTheTable", index="buildIndex"),
    "ldc": Language("ldc2 --version", "t.d", D, [Way("ldc2 -g -of=t t.d"), Way("ldc2 -g -O2 -release -of=t t.d")], table="fillTheTable", index="buildIndex"),
    "nim": Language("nim --version", "t.nim", NIM, [Way(f"nim c --hints:off {f} --debugger:native --nimcache:nc t.nim") for f in ("", "-d:release", "-d:release --mm:orc")], table="fillTheTable", index="buildIndex"),
    "ocaml": Language("ocamlopt -version", "t.ml", OCAML, [Way("ocamlopt -g -o t t.ml"), Way("ocamlopt -g -inline 100 -unsafe -o t t.ml"), Way("ocamlopt -o t t.ml", "names")]),
    "pascal": Language("fpc -iV", "t.pas", PASCAL % "cmem", [Way("fpc -v0 -g -gw -O- t.pas"), Way("fpc -v0 -g -gw -O2 t.pas"), Way("fpc -v0 -O2 -Xs- t.pas", "names")], table="FillTheTable", index="BuildIndex"),
    "pascal_without_cmem": Language("fpc -iV", "t.pas", PASCAL % "sysutils", [Way("fpc -v0 -g -O2 t.pas", "none", "static")], table="FillTheTable", index="BuildIndex"),
    "vala": Language("valac --version", "t.vala", VALA, [Way("valac -g -X -O0 -X -w -o t t.vala"), Way("valac -g -X -O2 -X -w -o t t.vala")]),
    "objective-c": Language("gcc -dumpfullversion", "t.m", OBJC, [Way("gcc -std=gnu11 -g -O0 -w -o t t.m -lobjc"), Way("gcc -std=gnu11 -g -O2 -w -o t t.m -lobjc")], table="fillTheTable", index="buildIndex"),
    "haskell": Language("ghc --numeric-version", "t.hs", HASKELL, [Way("ghc -v0 -g -O0 t.hs", "none"), Way("ghc -v0 -g -O t.hs")], table="fillTheTable", index="buildIndex"),
    "java": Language("javac -version", "T.java", JAVA, [Way("javac T.java", "names", run=JVM), Way("javac T.java", "none", "DumpPerfMapAtExit", run="java -Xmx128m -cp . T")], table="fillTheTable", index="buildIndex"),
    "node": Language("node --version", "t.js", NODE, [Way("true", run="node --perf-basic-prof --interpreted-frames-native-stack t.js"), Way("true", run="node --perf-prof --interpreted-frames-native-stack t.js"),
                     Way("true", "none", "--perf-basic-prof", run="node t.js")], table="fillTheTable", index="buildIndex"),
    "python": Language("/usr/bin/python3 --version", "t.py", PYTHON, [Way("true", run="/usr/bin/python3 t.py")]),
    "lli": Language("lli-14 --version", "t.c", C, [Way("clang -O1 -emit-llvm -c -o t.bc t.c", "names", run=f"lli-14 -jit-kind={k} t.bc") for k in ("mcjit", "orc")]),
    "numba": Language("/usr/bin/python3 -c 'import numba; print(numba.__version__)'", "t.py", """
import numba, numpy
@numba.njit
def fill_the_table(n):
    return numpy.ones(n, dtype=numpy.uint8)
@numba.njit
def build_index(n):
    return numpy.ones(n, dtype=numpy.uint8)
table = [fill_the_table(200_000) for _ in range(300)]
index = build_index(40_000_000)
""", [Way("true", "names", run="/usr/bin/python3 t.py")]),
    "pypy": Language("pypy3 --version", "t.py", PYTHON, [Way("true", "none", "PyPy", run="pypy3 t.py")]),
    "ruby": Language("ruby --version", "t.rb", """
def fill_the_table(n)
  (1..n).map { "x" * 200_000 }
end
def build_index(n)
  "x" * n
end
$table = fill_the_table(300)
$list = build_index(40_000_000)
""", [Way("true", "none", "ruby", run="ruby t.rb")]),
    "perl": Language("perl -e 'print $^V'", "t.pl", """
sub fill_the_table { my @t; push @t, "x" x 200_000 for 1 .. $_[0]; return \\@t; }
sub build_index { return "x" x $_[0]; }
our $table = fill_the_table(300);
our $list = build_index(40_000_000 + length(@$table) - 3);
""", [Way("true", "none", "perl", run="perl t.pl")]),
    "lua": Language("lua5.4 -v", "t.lua", """
function fill_the_table(n) local t = {} for i = 1, n do t[i] = string.rep("x", 200000) end return t end
function build_index(n) return string.rep("x", n) end
table_of = fill_the_table(300)
list = build_index(40000000)
""", [Way("true", "none", "lua", run="lua5.4 t.lua")]),
    "luajit": Language("luajit -v", "t.lua", """
function fill_the_table(n) local t = {} for i = 1, n do t[i] = string.rep(string.char(65 + i % 26), 200000) .. i end return t end
function build_index(n) return string.rep("x", n) end
table_of = fill_the_table(300)
list = build_index(40000000)
""", [Way("true", "none", "luajit", run="luajit t.lua")]),
    "php": Language("php -r 'echo PHP_VERSION;'", "t.php", """<?php
function fill_the_table($n) { $t = []; for ($i = 0; $i < $n; $i++) $t[] = str_repeat("x", 200000); return $t; }
function build_index($n) { return str_repeat("x", $n); }
$table = fill_the_table(300);
$list = build_index(40000000);
""", [Way("true", "none", "php", run="php t.php")]),
    "guile": Language("guile --version", "t.scm", """
(use-modules (rnrs bytevectors))
(define (fill-the-table n) (map (lambda (i) (make-bytevector 200000 1)) (iota n)))
(define (build-index n) (make-bytevector n 1))
(define table (fill-the-table 300))
(define list-of (build-index 40000000))
""", [Way("true", "none", "guile", run="guile --no-auto-compile t.scm")]),
    "tcl": Language("echo 'puts [info patchlevel]' | tclsh", "t.tcl", """
proc fill_the_table n { set t {}; for {set i 0} {$i < $n} {incr i} { lappend t [string repeat x 200000] }; return $t }
proc build_index n { return [string repeat x $n] }
set table [fill_the_table 300]
set list_of [build_index 40000000]
""", [Way("true", "none", "tclsh", run="tclsh t.tcl")]),
    "r": Language("R --version", "t.R", """
fill_the_table <- function(n) lapply(1:n, function(i) raw(200000))
build_index <- function(n) raw(n)
table_of <- fill_the_table(300)
list_of <- build_index(40000000)
""", [Way("true", "none", "of R itself", run="Rscript t.R")]),
    "sbcl": Language("sbcl --version", "t.lisp", """
(defun fill-the-table (n) (loop repeat n collect (make-array 200000 :element-type '(unsigned-byte 8) :initial-element 1)))
(defun build-index (n) (make-array n :element-type '(unsigned-byte 8) :initial-element 1))
(defvar *table* (fill-the-table 300))
(defvar *list* (build-index 40000000))
""", [Way("true", "none", "sbcl", run="sbcl --script t.lisp")]),
    "erlang": Language("erl -noshell -eval 'io:put_chars(erlang:system_info(otp_release)), halt().'", "t.erl", """
-module(t).
-export([main/0]).
fill_the_table(N) -> [binary:copy(<<"x">>, 200000) || _ <- lists:seq(1, N)].
build_index(N) -> binary:copy(<<"x">>, N).
main() -> A = fill_the_table(300), B = build_index(40000000), io:format("~p~n", [length(A) + size(B)]).
""", [Way("erlc t.erl", "none", "beam.smp", run="erl -noshell -s t main -s init stop")]),
}


def shell(command, folder):
    own = {k: v for k, v in os.environ.items() if not k.startswith("LD_")} | {"HOME": os.environ.get("HOME", folder), "GOFLAGS": "-mod=mod", "GOCACHE": os.path.join(folder, "go")}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def version(language, folder):
    needs(language.version.split("|")[-1].split()[0])
    code, text = shell(language.version, folder)
    found = re.search(r"\d+(\.\d+)*", text)
    if code != 0:
        raise Skipped(text.strip())
    return found[0] if found else ""


def measure(language, way, log):
    """The shares of what both functions asked for that have their names, and their names and lines; the bytes that have a wrong line of
    them, or are far more than they can hold; and what the report says."""
    record(log, *way.run.split(), options=("--names", "own"), GPUPEAK_HOST="full")
    summary = report(log)
    peak = next(p for p in summary["peaks"] if p["scope"] == "host")
    resident, most = (summary["metrics"].get(name) or 0 for name in ("host.resident.heap_bytes", "host.kind.heap.usable_peak_bytes"))
    expect(resident <= most + (16 << 20), f"{resident} bytes of the heap are resident, of {most} at most")
    lines = language.text.split("\n")
    named, with_line, wrong = 0, 0, 0
    for function, mark, size in ((language.table, "TABLE", TABLE), (language.index, "INDEX", INDEX)):
        at = next((i + 1 for i, line in enumerate(lines) if line.rstrip(" */-})").endswith(mark)), 0)
        own = [(row["bytes"], row["parts"][0]["line"] or 0) for row in peak["holders"]
               if row.get("parts") and re.search(rf"(?<![a-z]){function}", row["parts"][0]["function"] or "", re.I)]
        held = sum(size for size, _ in own)
        named += min(held, size)
        with_line += min(size, sum(size for size, line in own if line == at))
        wrong += sum(size for size, line in own if line != 0 and abs(line - at) > 6) + max(0, held - size * 5 // 2)
    if os.environ.get("VERBOSE"):
        for row in peak["holders"][:4]:
            print("     ", row["bytes"], row["count"], row["site"][:300], [f"{f['function']} {f['module']}" for f in row["stack"]][:12])
    return named / (TABLE + INDEX), with_line / (TABLE + INDEX), wrong, str(summary["quality"]["warnings"])


def try_way(name, language, way, folder):
    """Prints a row of the table. Returns what is not as it should be, or an empty text."""
    for entry in os.listdir(folder):
        path = os.path.join(folder, entry)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    write(folder, language.file, language.text)
    how = way.build if way.run == "./t" else f"{way.build}; {way.run}".removeprefix("true; ")
    code, text = shell(way.build, folder)
    if code != 0:
        raise Skipped(f"{how}: {text}")
    if way.says == "static":
        code, text = gpupeak("run", "-o", os.path.join(folder, "x.gplog"), "--", "./t")
        print(f"| {name} | `{how}` | not measured: {way.says}ally linked | | |", flush=True)
        return "" if "it is statically linked" in text else f"{how}: {text}"
    named, with_line, wrong, said = measure(language, way, os.path.join(folder, "x.gplog"))
    print(f"| {name} | `{how}` | {named:.1%} | {f'{with_line:.1%}' if way.has == 'lines' else ''} | {wrong} |", flush=True)
    good = wrong == 0 and {"lines": min(named, with_line) >= 0.95, "names": named >= 0.95, "none": way.says in said}[way.has]
    return "" if good else f"{how}: {named:.1%} have names, {with_line:.1%} lines, {wrong} bytes wrong ones; {said}"


def main(folder):
    os.chdir(folder)
    print("| language | built and run by | names | lines | bytes with a wrong one |\n|---|---|---|---|---|")
    for name in LANGUAGES if sys.argv[3] == "all" else sys.argv[3:]:
        language, troubles = LANGUAGES[name], []
        try:
            told = f"{name} {version(language, folder)}".strip()
            for way in language.ways:
                troubles.append(try_way(told, language, way, folder))
        except Skipped as why:
            if sys.argv[3] != "all":
                raise
            print(f"| {name} | skipped: {why} |", flush=True)
        except Failed as why:
            troubles.append(str(why))
        troubles = [trouble for trouble in troubles if trouble]
        if sys.argv[3] == "all":
            print("".join(f"  {trouble[:400]}\n" for trouble in troubles), end="", flush=True)
        else:
            expect(not troubles, "\n".join(troubles))


run_case(main)
