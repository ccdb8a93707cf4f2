#!/usr/bin/env python3
"""A Rust program's memory is named by its own functions, as Rust itself names them, in both manglings, with and without
debug information.

usage: rust.py LIBGPUPEAK GPUPEAK v0|legacy|panic
"""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from common import GPUPEAK, Skipped, expect, run_checks

# The functions print their names in Rust, and how much they have asked for.
PROGRAM = r"""
use std::any::type_name_of_val;
use std::collections::HashMap;
use std::fmt::Write;
trait Fill { fn fill(&mut self, n: u64); }
struct Store<T> { rows: Vec<T> }
impl<T: From<u32>> Store<T> {
    #[inline(never)]
    fn grow(&mut self, n: u32) { for i in 0..n { self.rows.push(T::from(i)); } }
}
impl Fill for HashMap<u64, [u64; 15]> {
    #[inline(never)]
    fn fill(&mut self, n: u64) { for i in 0..n { self.insert(i, [i; 15]); } }
}
#[inline(never)]
fn spell(n: u32) -> Vec<String> {
    let mut words = Vec::with_capacity(n as usize);
    for i in 0..n {
        let mut text = String::with_capacity(1000);
        write!(text, "{:>500}", i).unwrap();
        words.push(text);
    }
    words
}
fn main() {
    let mut store = Store::<u64> { rows: Vec::new() };
    store.grow(1 << 20);
    println!("store::Store<u64>::grow {}", store.rows.capacity() * 8);
    let mut map = HashMap::new();
    map.fill(1 << 16);
    let words = spell(10_000);
    println!("{} {}", type_name_of_val(&spell), words.iter().map(|w| w.capacity()).sum::<usize>() + words.capacity() * 24);
    println!("{} 0", type_name_of_val(&main));
    if std::env::args().len() > 1 { panic!("{} words, {} rows", words.len(), map.len()); }
}
"""
MANGLED = re.compile(rb"_R[A-Z][A-Za-z0-9_]{8}|\$LT\$|\$u7b\$|17h[0-9a-f]{16}|::h[0-9a-f]{16}")


def rustc():
    for place in (shutil.which("rustc"), os.path.expanduser("~/.cargo/bin/rustc")):
        if place and subprocess.run([place, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return place
    raise Skipped("rustc is missing")


def run(*command, code=0):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, env=dict(os.environ, RUST_BACKTRACE="1", RUSTC_BOOTSTRAP="1"))
    expect(done.returncode == code, f"{command} gives {done.returncode}: {done.stdout.decode(errors='replace')}{done.stderr.decode()}")
    return done.stdout, done.stderr.decode()


def build(folder, mangling, options):
    program = os.path.join(folder, "store")
    with open(program + ".rs", "w") as file:
        file.write(PROGRAM)
    # The legacy mangling is the default up to some release; later only an unstable option asks for it.
    run(rustc(), "--edition", "2021", "-Z", "unstable-options", "-C", f"symbol-mangling-version={mangling}", *options, "-o", program,
        program + ".rs")
    return program


def without_lines(titles):
    """Builds with -g have lines."""
    return re.sub(r" \S+\.rs:\d+", "", titles)


def check_names(folder, mangling, options):
    program, log = build(folder, mangling, options), os.path.join(folder, "x.gplog")
    said, screen = run(GPUPEAK, "run", "-o", log, "--", program)
    asked_for = {name: int(size) for name, size in (line.rsplit(" ", 1) for line in said.decode().splitlines())}
    grow = "store::Store<u64>::grow"
    expect(set(asked_for) == {grow, "store::spell", "store::main"}, f"Rust's own names: {asked_for}")
    shown = [row.split("%  ")[1] for row in screen.splitlines() if "%  " in row]
    generic = grow if mangling == "v0" else "store::Store<T>::grow"  # the legacy mangling does not have the type
    space = " " if mangling == "v0" else ""
    titles = [without_lines(title) for title in shown]
    for title in (f"{generic} ← store::main", "store::spell ← store::main",
                  f"<HashMap<u64,{space}[u64; 15]> as Fill>::fill ← store::main"):
        expect(title in titles, f"{options}: nothing is named {title}: {screen}")
    # Rows of one function differ by their lines, but the program counts by functions: so they are added up.
    found = json.loads(run(GPUPEAK, "report", "--json", "--by", "function", log)[0])
    by_function = {holder["site"]: holder["bytes"] for peak in found["peaks"] if peak["scope"] == "host" for holder in peak["holders"]}
    for name, size in ((generic, asked_for[grow]), ("store::spell", asked_for["store::spell"])):
        expect(by_function.get(name) == size, f"{name}: {by_function}, Rust says {size}")

    for what in (["report", "--full"], ["report", "--json"], ["tree", "--json"], ["tree", "--flame", "--json"], ["export", "folded", "-o", "-"],
                 ["export", "pprof", "-o", "-"]):
        text = run(GPUPEAK, *what, log)[0]
        text = gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text
        expect(b"store::spell" in text, f"{what} does not name store::spell")
        expect(not MANGLED.search(text), f"{what}: {MANGLED.search(text)}")

    found = json.loads(run(GPUPEAK, "report", "--json", "--by", "tag", "--tag", "rows=store::Store*::grow", log)[0])
    tags = {holder["site"]: holder["bytes"] for peak in found["peaks"] if peak["scope"] == "host" for holder in peak["holders"]}
    expect(tags.get("rows") == asked_for[grow], f"the tag's rule finds {tags}, Rust says {asked_for}")


def check_panic(folder):
    program, log = build(folder, "v0", []), os.path.join(folder, "x.gplog")
    native = run(program, "panic", code=101)[1]
    _, screen = run(GPUPEAK, "run", "-o", log, "--", program, "panic", code=101)
    message = "10000 words, 65536 rows"
    expect(message in native and message in screen, f"what the program says is lost: {screen}")
    expect("exit 101" in screen and "as Fill>::fill ← store::main" in without_lines(screen), f"who held what at a panic: {screen}")
    # Rust reads debug information for its backtrace. The report says that this memory is not the program's.
    found = run(GPUPEAK, "report", "--full", log)[0].decode()
    expect("← std::panicking::default_hook" in found, f"what a panic's backtrace takes is not said: {found}")


def main():
    case = sys.argv[3]
    with tempfile.TemporaryDirectory() as folder:
        if case == "panic":
            check_panic(folder)
            return
        for options in ([], ["-O", "-g"]):
            check_names(folder, case, options)


run_checks(main)
