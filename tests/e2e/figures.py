"""Figures that stand in two places are the same. README's table of costs is that of docs/performance.md, and is written from it
(figures.py --write); excerpts of reports are lines of the gallery's, in their order.

usage: figures.py LIBGPUPEAK GPUPEAK [--write]
"""
import os
import re
import sys

from common import Failed, expect, run_checks

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
BEGIN, END = "<!-- from docs/performance.md by tests/e2e/figures.py --write -->\n", "<!-- end -->\n"
PAGES_WITH_EXCERPTS = ("README.md", "docs/hurry/pytorch.md", "docs/hurry/jax.md")  # of the gallery


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def costs(performance):
    """The table of programs' costs, as the page has it."""
    tables = re.findall(r"^(?:\|.*\n)+", performance, re.M)
    (table,) = [t for t in tables if t.startswith("| what it costs |")]
    return table


def with_costs(readme, table):
    before, _, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    expect(end, "README has no place for the table of costs")
    return before + BEGIN + table + END + after


def blocks(text):
    return [block.splitlines() for block in re.findall(r"^```\n(.*?)^```", text, re.S | re.M)]


def missing_line(excerpt, whole):
    """The first line, with its number, that `whole` does not have behind the lines before it; None: it has all lines in this order."""
    at = 0
    for number, line in enumerate(excerpt):
        if line.strip() in ("", "…") or line.startswith("$ gpupeak run"):
            continue
        if line not in whole[at:]:
            return number, line
        at += whole[at:].index(line) + 1
    return None


def check_excerpts(page, text, gallery):
    """Each block that shows a GPU of the gallery is a part of a block of the gallery."""
    wholes = blocks(gallery)
    for excerpt in blocks(text):
        if not any("(H200)" in line for line in excerpt):
            continue
        missing = [missing_line(excerpt, whole) for whole in wholes]
        if None not in missing:
            raise Failed(f"{page}: docs/gallery.md has not this line there: {max(missing)[1]}")


def main():
    table = costs(read("docs/performance.md"))
    readme = read("README.md")
    expected = with_costs(readme, table)
    if "--write" in sys.argv:
        with open(os.path.join(ROOT, "README.md"), "w", encoding="utf-8") as file:
            file.write(expected)
        readme = expected
    expect(readme == expected, "README's costs are not those of docs/performance.md: tests/e2e/figures.py --write renews them")
    # No figure of cost may be in prose, where nobody would renew it.
    costs_chapter = readme.split("## What it costs\n")[1].split("\n## ")[0].replace(table, "")
    expect(not re.search(r"\d ?%|\d×", costs_chapter), f"README says a cost in prose: {costs_chapter}")
    gallery = read("docs/gallery.md")
    for page in PAGES_WITH_EXCERPTS:
        check_excerpts(page, read(page), gallery)
    # Errors that the checks must find.
    expect(missing_line(["a", "c"], ["a", "b", "c"]) is None and missing_line(["c", "a"], ["a", "b", "c"]) == (1, "a"), "lines out of order pass")
    expect(with_costs(readme, table.replace("1.", "2.", 1)) != readme, "another figure passes")


run_checks(main)
