"""Compiles the interpreter's own library and writes each code object's line table, and the line of each instruction
as Python says, to standard output for lines.cc.
"""
import dis
import glob
import os
import struct
import sys
import types
import warnings

VERSION = sys.version_info[:2]
LNOTAB, LINE_TABLE, LOCATIONS = 0, 1, 2
KIND = LNOTAB if VERSION < (3, 10) else LINE_TABLE if VERSION < (3, 11) else LOCATIONS
out = sys.stdout.buffer


def lines_of(code):
    """(offset, line or 0) of each instruction."""
    if VERSION >= (3, 10):
        for start, end, line in code.co_lines():
            for offset in range(start, end, 2):
                yield offset, line or 0
        return
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for offset in range(0, len(code.co_code), 2):
        line = starts.get(offset, line)
        yield offset, line


def write(code):
    table = code.co_lnotab if KIND == LNOTAB else code.co_linetable
    lines = list(lines_of(code))
    out.write(struct.pack("<Bi", KIND, code.co_firstlineno) + struct.pack("<I", len(table)) + table)
    out.write(struct.pack("<I", len(lines)) + b"".join(struct.pack("<Ii", *line) for line in lines))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            write(constant)


warnings.simplefilter("ignore")
for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))[:120]:
    with open(path, "rb") as file:
        write(compile(file.read(), path, "exec"))
jumping = "\n" * 300 + "def f(a):\n" + "\n" * 1000 + "  return [x for\n\n x in\n a if (x\n\n\n\n and\n not x)]\n" + "\n" * 70000 + "f([1])\n"
write(compile(jumping, "jumping.py", "exec"))
