#!/usr/bin/env python3
"""Marks of a program that ran already, whether it has spoken to NVTX before `gpupeak attach` or begins later.

usage: check_attach.py LIBGPUPEAK GPUPEAK CLIENT
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from attach_common import expect_nothing_leads_into_library  # noqa: E402
from common import Program, Skipped, environment, expect, expect_consistent, gpupeak, report, run_case  # noqa: E402

CLIENT = sys.argv[3]


def recorded(program, log, *lines):
    """What `report` says of the program's ranges while it was told so."""
    code, text = gpupeak("attach", "-o", log, program.pid)
    expect(code == 0, text)
    for line in lines:
        expect(program.tell(line) == "ok", line)
    code, text = gpupeak("detach", program.pid)
    expect(code == 0 and "hold something else" not in text, text)
    expect_nothing_leads_into_library(program.pid)
    summary = report(log)
    expect_consistent(summary)
    expect(not [w for w in summary["quality"]["warnings"] if w["code"] == "GP029"], f"{summary['quality']}")
    expect(all(p["count"] == 1 for p in summary["phases"]), f"{summary['phases']}")
    return [p["name"] for p in summary["phases"] if p["source"] == "nvtx"]


def spoken_before(folder):
    program = Program("", [CLIENT], environment(folder, False))
    for line in ("work before 1000", "domain early 1000", "string 1000", "push open"):
        program.tell(line)
    found = recorded(program, os.path.join(folder, "a.gplog"), "pop", "work seen 1000000", "domain late 2000000", "string 3000000")
    expect(found == ["seen", "late", "(registered before the attach)"], f"{found}")
    program.tell("work between 1000")
    found = recorded(program, os.path.join(folder, "b.gplog"), "work again 1000000")
    expect(found == ["again"], f"{found}")
    program.end()


def speaks_later(folder):
    """It asks for a tool while it is attached to: what it has got is taken back, and strings keep their names."""
    program = Program("", [CLIENT], environment(folder, False))
    found = recorded(program, os.path.join(folder, "c.gplog"), "work first 1000000", "string 1000000", "domain by_name 1000000")
    expect(found == ["first", "library:registered", "library:by_name"], f"{found}")
    program.tell("work between 1000")
    found = recorded(program, os.path.join(folder, "d.gplog"), "string 1000000", "work again 1000000")
    expect(found == ["library:registered", "again"], f"{found}")
    program.end()


def main(folder):
    if os.uname().machine != "x86_64":
        raise Skipped("x86-64 alone")
    spoken_before(folder)
    speaks_later(folder)


run_case(main)
