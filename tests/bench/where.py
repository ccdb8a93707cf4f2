#!/usr/bin/env python3
"""Tells which share of a program's processor time is spent in libgpupeak.so, and in which of its functions, by samples.

usage: where.py SAMPLER LIBRARY [--after=SECONDS] [--top=N] [--runs=N] [--way=NAME …] [--heaptrack=PEER] -- COMMAND…
       (SAMPLER: libbench_sampler.so; LIBRARY: libgpupeak.so with its symbols; --after: processor time to leave out at the start;
       program: the program says when by setting ITIMER_PROF; --runs: of short programs, whose samples are added up; PEER:
       libheaptrack_preload.so, which is preloaded in LIBRARY's place for one more row, and writes to /dev/null)

Where a machine's speed changes by half within seconds, ratios of times say little; shares of one process's time do not change with it.
A library that takes the share s makes the program 1 / (1 - s) times as long, besides what it pushes out of the caches.
"""
import bisect
import collections
import os
import struct
import subprocess
import sys
import tempfile

WAYS = {
    "host off, pools off": {"GPUPEAK_HOST": "off", "GPUPEAK_POOLS": "off"},
    "host off, without Python lines": {"GPUPEAK_HOST": "off", "GPUPEAK_PYTHON": "off"},
    "host off": {"GPUPEAK_HOST": "off"},
    "counters": {"GPUPEAK_HOST": "counters"},
    "sampled": {"GPUPEAK_HOST": "sampled"},
    "auto": {"GPUPEAK_HOST": "auto"},
    "full": {"GPUPEAK_HOST": "full"},
}


def functions(path):
    """Sorted [(where in the file, bytes, mangled name)] of an ELF file's .symtab."""
    with open(path, "rb") as file:
        data = file.read()
    (headers,) = struct.unpack_from("<Q", data, 32)
    header_bytes, header_count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQ", data, headers + i * header_bytes) for i in range(header_count)]
    (moved,) = {address - offset for kind, flags, offset, address in segments if kind == 1 and flags & 1}  # that of code
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    found = []
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != 2:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + length, entry):
            name, info, _, section, value, bytes_ = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 == 2 and section != 0:
                end = data.index(b"\0", strings + name)
                found.append((value - moved, bytes_, data[strings + name:end].decode()))
    return sorted(found)


def demangled(names):
    try:
        done = subprocess.run(["c++filt", "-p"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True)
        return dict(zip(names, done.stdout.split("\n")))
    except (OSError, subprocess.CalledProcessError):
        return {name: name for name in names}


def samples(path):
    """Address -> count, and the mappings [(begin, end, offset, file)]."""
    maps, places = [], collections.Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                places[int(line, 16)] += 1
                continue
            words = line[1:].split()
            begin, end = (int(word, 16) for word in words[0].split("-"))
            maps.append((begin, end, int(words[2], 16), words[5] if len(words) > 5 else ""))
    return places, sorted(maps)


def measure(sampler, library, after, way, command, folder):
    """What samples() tells of one run of the command with the library."""
    out = os.path.join(folder, "samples")
    environment = dict(os.environ, LD_PRELOAD=f"{library}:{sampler}", SAMPLER_OUT=out, SAMPLER_AFTER=after, GPUPEAK_SUMMARY="off",
                       GPUPEAK_OUT=os.path.join(folder, "run.gplog"), **way)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return samples(out)


def main():
    split = sys.argv.index("--")
    words, command = sys.argv[1:split], sys.argv[split + 1:]
    options = [word[2:].split("=", 1) for word in words if word.startswith("--")]
    settings = dict(options)
    sampler, library = (os.path.abspath(word) for word in words if not word.startswith("--"))
    rows = [(name, library, WAYS[name]) for name in [value for key, value in options if key == "way"] or WAYS]
    if "heaptrack" in settings:
        rows.append(("heaptrack to /dev/null", os.path.abspath(settings["heaptrack"]), {"DUMP_HEAPTRACK_OUTPUT": "/dev/null"}))
    print("| way | samples | in the library | in libunwind | makes it | where in the library |\n|---|---|---|---|---|---|")
    for row in rows:
        print_row(*row, sampler, settings, command)


def print_row(name, library, way, sampler, settings, command):
    known = functions(library)
    starts = [function[0] for function in known]
    files, inside = collections.Counter(), collections.Counter()
    for _ in range(int(settings.get("runs", 1))):
        with tempfile.TemporaryDirectory() as folder:
            places, maps = measure(sampler, library, settings.get("after", "0"), way, command, folder)
        begins = [mapping[0] for mapping in maps]
        for place, count in places.items():
            at = bisect.bisect(begins, place) - 1
            mapped = at >= 0 and place < maps[at][1]
            file = os.path.basename(maps[at][3]) if mapped else ""
            ours = mapped and os.path.realpath(maps[at][3]) == os.path.realpath(library)
            files["ours" if ours else "libunwind" if file.startswith("libunwind") else "other"] += count
            if ours and known:
                offset = place - maps[at][0] + maps[at][2]
                function = known[bisect.bisect(starts, offset) - 1]
                inside[function[2] if offset < function[0] + function[1] else "?"] += count
    total = max(1, sum(files.values()))
    share = (files["ours"] + files["libunwind"]) / total
    top = inside.most_common(int(settings.get("top", 6)))
    names = demangled([function for function, _ in top])
    where = ", ".join(f"{names[function].split('::')[-1]} {100 * count / total:.1f} %" for function, count in top)
    print(f"| {name} | {total} | {100 * files['ours'] / total:.1f} % | {100 * files['libunwind'] / total:.1f} % | "
          f"{1 / (1 - share):.3f}× | {where} |", flush=True)


if __name__ == "__main__":
    main()
