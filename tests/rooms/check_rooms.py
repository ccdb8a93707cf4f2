#!/usr/bin/env python3
"""Reads every include of the collector and the preload, and fails on one that runs upwards between the rooms. Fails also where two headers
of a part define classes of one name: they share a namespace, and a program that links both would call one's functions for the other.

A room is a folder. Which rooms it may include says its target: `gpupeak_room(NAME USES ...)` (the preload's:
`gpupeak_preload_room`) in the part's CMakeLists.txt, where the rooms stand bottom first. Prints rooms, levels (the longest way down, plus one) and
edges of each part. docs/design.md must name the same rooms in the same order.

check_rooms.py SOURCE            checks the tree
check_rooms.py --planted SOURCE  plants one upward include after the other in a copy; each must be found
"""
import pathlib
import re
import shutil
import sys
import tempfile

PARTS = {"collector": "collector/", "preload": ""}  # what an include of a room of this part begins with


def declared(source, part):
    """{room: rooms it links}, in the order of the file."""
    text = re.sub(r"#.*", "", (source / part / "CMakeLists.txt").read_text())
    rooms = {}
    for call in re.findall(r"gpupeak_(?:preload_)?room\((\w+)([^)]*)\)", text):
        uses = re.search(r"\bUSES\b([\w\s]*?)(?:\bLIBRARIES\b|\bSOURCES\b|$)", call[1])
        rooms[call[0]] = uses.group(1).split() if uses else []
    return rooms


def check(source, part):
    """The faults found, and the figures of the part."""
    rooms = declared(source, part)
    order = list(rooms)
    faults = []
    for room, uses in rooms.items():
        faults += [f"{part}: target of {room} links {use}, which is not below it" for use in uses
                   if use not in order[:order.index(room)]]
    edges = set()
    prefix = re.escape(PARTS[part])
    for file in sorted((source / part).rglob("*")):
        if file.suffix not in (".h", ".cc", ".S", ".in", ".def"):
            continue
        inside = file.relative_to(source / part).parts
        if inside[0] == "include" or len(inside) == 1 or inside[0] not in rooms:
            if inside[0] not in ("include", "audit"):
                faults.append(f"{file.relative_to(source)}: is in no room of {part}/CMakeLists.txt")
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = re.match(rf'\s*#\s*include\s*"{prefix}(\w+)/', line)
            if not found or found.group(1) not in rooms or found.group(1) == inside[0]:
                continue
            target = found.group(1)
            where = f"{file.relative_to(source)}:{number}"
            if target not in order[:order.index(inside[0])]:
                faults.append(f"{where}: {inside[0]} includes {target}, which lies above it")
            elif target not in rooms[inside[0]]:
                faults.append(f"{where}: {inside[0]} includes {target}, which its target does not link")
            else:
                edges.add((inside[0], target))
    for room, uses in rooms.items():
        faults += [f"{part}: target of {room} links {use} and includes nothing of it" for use in uses
                   if (room, use) not in edges]
    levels = {}
    for room in order:
        levels[room] = 1 + max((levels.get(below, 0) for above, below in edges if above == room), default=0)
    return faults, (len(order), max(levels.values(), default=0), len(edges))


def defined_twice(source, part):
    """Classes that two headers define at their outermost level; a header for each processor counts once."""
    homes = {}
    for file in sorted((source / part).rglob("*.h")):
        home = re.sub(r"_(x86_64|aarch64)$", "", file.stem)
        for name in re.findall(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: ?:[^;{]*)? ?\{", file.read_text(), re.M):
            homes.setdefault(name, {})[file.parent / home] = file.relative_to(source)
    return [f"{name} is defined by {' and '.join(str(file) for file in files.values())}" for name, files in homes.items() if len(files) > 1]


def named_in_design(source, part):
    text = (source / "docs/design.md").read_text()
    return re.findall(rf"^\| `{part}/(\w+)` \|", text, re.M)


def check_all(source):
    faults = []
    for part in PARTS:
        found, (rooms, levels, edges) = check(source, part)
        upward = sum("lies above" in fault for fault in found)
        print(f"{part}: {rooms} rooms on {levels} levels, {edges} edges, {upward} upwards")
        faults += found + defined_twice(source, part)
        named, order = named_in_design(source, part), list(declared(source, part))
        if named != order:
            faults.append(f"docs/design.md names {part}'s rooms as {named}, the build as {order}")
    return faults


def plant(source):
    """Each room in turn includes a header of one above it; the check must name that very line."""
    missed = []
    planted = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for part in (*PARTS, "docs"):
            shutil.copytree(source / part, copy / part, ignore=shutil.ignore_patterns("node_modules"))
        for part, prefix in PARTS.items():
            order = list(declared(copy, part))
            for lower, upper in zip(order, order[1:]):
                file = next(f for f in sorted((copy / part / lower).iterdir()) if f.suffix in (".h", ".cc"))
                text = file.read_text()
                file.write_text(f'#include "{prefix}{upper}/planted.h"\n{text}')
                planted += 1
                if not any(f"{file.relative_to(copy)}:1: {lower} includes {upper}" in fault
                           for fault in check(copy, part)[0]):
                    missed.append(f"{part}: {lower} -> {upper} was not found")
                file.write_text(text)
        file = copy / "collector/log/planted.h"
        file.write_text("struct ReplayObserver {\n};\n")
        if len(defined_twice(copy, "collector")) != 1:
            missed.append("a second ReplayObserver was not found")
    print(f"{planted} upward includes and a class planted, {len(missed)} missed")
    return missed


def main():
    planting = sys.argv[1] == "--planted"
    source = pathlib.Path(sys.argv[-1]).resolve()
    faults = plant(source) if planting else check_all(source)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


main()
