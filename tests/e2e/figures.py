"""Excerpts of reports are lines of the gallery's, in their order.

usage: figures.py LIBGPUPEAK GPUPEAK
"""
import os
import re

from common import Failed, expect, run_checks

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
PAGES_WITH_EXCERPTS = ("docs/hurry/pytorch.md", "docs/hurry/jax.md")  # of the gallery


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


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
    gallery = read("docs/gallery.md")
    for page in PAGES_WITH_EXCERPTS:
        check_excerpts(page, read(page), gallery)
    # An error that the check must find.
    expect(missing_line(["a", "c"], ["a", "b", "c"]) is None and missing_line(["c", "a"], ["a", "b", "c"]) == (1, "a"), "lines out of order pass")


run_checks(main)
