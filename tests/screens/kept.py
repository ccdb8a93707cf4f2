"""What is seen against what is kept in a file."""
import difflib
import os
import sys


def differs(path, seen):
    """Whether it is not what is kept; prints where. SCREENS_WRITE=1 keeps what is seen: read the difference before you commit it."""
    if os.environ.get("SCREENS_WRITE"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(seen)
    with open(path, encoding="utf-8") as file:
        expected = file.read()
    sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), seen.splitlines(True), path, "seen"))
    return seen != expected
