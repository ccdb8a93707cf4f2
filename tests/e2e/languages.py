#!/usr/bin/env python3
"""Programs of other languages: their first row is the program's own function, and not its runtime's allocator (rules/languages.toml).

usage: languages.py LIBGPUPEAK GPUPEAK ada|d|fortran|nim|ocaml
"""
import os
import subprocess
import sys

from common import Skipped, expect, needs, record, report, run_case, write

CASE = sys.argv[3]

# How it is compiled, its text, and what its rows begin with, with how much they hold at least.
PROGRAMS = {
    "ada": (["gnatmake", "-q", "-g", "-O1", "t.adb"], "t.adb", """
procedure T is
   type Bytes is array (Positive range <>) of Character;
   type Ref is access Bytes;
   type Table is array (1 .. 300) of Ref;
   Kept : Table;
   function Load_Images (N : Positive) return Ref is
   begin
      return new Bytes'(1 .. N => 'x');
   end Load_Images;
begin
   for I in Table'Range loop Kept (I) := Load_Images (200_000); end loop;
end T;
""", {"load_images": 60000000}),
    "d": (["gdc", "-g", "-O1", "-o", "t", "t.d"], "t.d", """
__gshared ubyte[][] kept;
pragma(inline, false) ubyte[] loadImages(size_t n) { auto b = new ubyte[n]; b[] = 1; return b; }
void main() { foreach (i; 0 .. 300) kept ~= loadImages(200_000); }
""", {"loadImages": 60000000}),
    "fortran": (["gfortran", "-g", "-O1", "-o", "t", "t.f90"], "t.f90", """
module m
  real(8), allocatable :: weights(:)
contains
  subroutine load_weights(n)
    integer, intent(in) :: n
    allocate(weights(n))
    weights = 1
  end subroutine
end module
program f
  use m
  call load_weights(7500000)
  if (weights(1) > 2) print *, weights(1)
end program
""", {"load_weights": 60000000}),
    "nim": (["nim", "c", "--hints:off", "-d:release", "--debugger:native", "--nimcache:nc", "t.nim"], "t.nim", """
proc loadImages(n: int): seq[string] =
  for i in 0 ..< n: result.add newString(200_000)
proc buildIndex(n: int): seq[int] = newSeq[int](n)
let a = loadImages(300)
let b = buildIndex(5_000_000)
echo a.len + b.len
""", {"loadImages": 60000000, "buildIndex": 40000000}),
    "ocaml": (["ocamlopt", "-g", "-o", "t", "t.ml"], "t.ml", """
let [@inline never] load_images n = Sys.opaque_identity (Array.init n (fun _ -> Bytes.make 200_000 'x'))
let [@inline never] build_index n = Sys.opaque_identity (Array.make n 0)
let () = let a = load_images 300 in let b = build_index 5_000_000 in print_int (Array.length a + Array.length b)
""", {"load_images": 50000000, "build_index": 40000000}),
}


def main(folder):
    command, name, text, expected = PROGRAMS[CASE]
    needs(command[0])
    write(folder, name, text)
    own = os.environ | {"HOME": folder}
    done = subprocess.run(command, cwd=folder, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"{command}: {done.stdout}")
    log = os.path.join(folder, "x.gplog")
    record(log, os.path.join(folder, "t"), GPUPEAK_HOST="full")
    holders = next(p for p in report(log)["peaks"] if p["scope"] == "host")["holders"]
    for function, size in expected.items():
        held = sum(row["bytes"] for row in holders if function.lower() in row["site"].split(" ← ")[0].lower())
        print(f"| {CASE} | `{' '.join(command)}` | `{function}` asks for {size:,} | {min(held, size) / size:.1%} |")
        expect(held >= size * 0.95, f"{function} holds {held}: {[(row['site'], row['bytes']) for row in holders[:5]]}")


run_case(main)
