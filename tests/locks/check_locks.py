#!/usr/bin/env python3
"""Reads every place where the preload takes a lock, and fails on one that breaks the rule of docs/design.md, "Locks and signals":
whoever holds a lock has its signals blocked, or whoever waits for it has not, and does not wait for good.

check_locks.py SOURCE            checks the tree, and prints the locks and how often each is taken
check_locks.py --planted SOURCE  plants one fault after the other in a copy; each must be found
"""
import collections
import pathlib
import re
import shutil
import sys
import tempfile

GUARDS = "base/lock.h"
BOOK = "track/device_book.h"  # the one lock that is taken with signals open
TIMED = {"base/lock.h", "base/lock.cc", "track/arena_objects.h", "track/arena_objects.cc", "hooks/arena_tables.cc", "track/limit.cc"}
LOADER = {"base/loader.h", "base/own_libc.cc"}  # who may ask the loader under its lock
FUTEX = {"base/syscalls.h", "base/call_filter.cc", "base/lock.cc", "stack/unwinder.cc"}  # the last asks only whether a word can be read


def without_comments(text):
    return re.sub(r"//[^\n]*", "", re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text))


def check(preload):
    """The faults found, and how often each lock is taken."""
    faults, taken = [], collections.Counter()
    for path in sorted([*preload.rglob("*.cc"), *preload.rglob("*.h")]):
        name = str(path.relative_to(preload))
        text = without_comments(path.read_text())
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            here = f"preload/{name}:{number}"
            if match := re.search(r"\b(LockGuard|OpenLockGuard|NotedLock)\s+\w+\(([^;]*)\);", line):
                guard, lock = match.groups()
                taken[lock if "(" in lock else f"{name}: {lock}"] += 1
                if guard == "NotedLock" or guard == "OpenLockGuard":
                    faults.append(f"{here}: {guard} leaves signals open; it is for {GUARDS} and {BOOK} alone")
                if "g_book" in lock:
                    faults.append(f"{here}: the book's lock is taken by BookGuard")
            elif re.search(r"\b(LockGuard|OpenLockGuard|BookGuard|InBook|BookSite)\s*[({]", line) and name not in (GUARDS, BOOK):
                faults.append(f"{here}: a guard that has no name is gone at once")
            if re.search(r"\bOpenLockGuard\b", line) and name not in (GUARDS, BOOK):
                faults.append(f"{here}: OpenLockGuard is for {BOOK} alone")
            if name != BOOK and (match := re.search(r"\b(?:BookGuard|InBook|BookSite)\s+(\w+)(?:\([^;]*\))?;", line)):
                taken["g_book.lock, signals open"] += 1
                if not re.match(rf"\s*if \(!?{match.group(1)}\b", lines[number]):
                    faults.append(f"{here}: whether the lock was had is not asked")
            if re.search(r"(\.|->)(lock|lock_in_time|try_lock|unlock)\(", line) and name not in {GUARDS, *TIMED}:
                if "flags.locks[last]->unlock()" not in line:  # what a jump has left
                    faults.append(f"{here}: a lock without a guard")
            if re.search(r"\bTimedLock\b", line) and name not in TIMED:
                faults.append(f"{here}: TimedLock is for the calls of arenas alone")
            if "dl_iterate_phdr(" in line and name not in LOADER:
                faults.append(f"{here}: the loader's lock is held with signals open; base/loader.h blocks them")
            if re.search(r"\bSYS_futex\b|\bsys::futex\(", line) and name not in FUTEX:
                faults.append(f"{here}: waits in a way that nobody knows of")
            if re.search(r"\b(pthread_mutex|std::mutex|std::lock_guard|atomic_flag)", line) and name not in LOADER:
                faults.append(f"{here}: not a lock of ours")
    guards = (preload / GUARDS).read_text()
    guard = re.search(r"\nclass LockGuard \{.*?\n\};", guards, re.S).group(0)
    members = re.findall(r"^  (?:const )?(SignalsHeld|NotedLock|FutexLock)&? \w+_;", guard, re.M)
    if members != ["SignalsHeld", "NotedLock", "FutexLock"]:
        faults.append(f"preload/{GUARDS}: LockGuard must block signals first and let them go last, its members are {members}")
    return faults, taken


# In which file, what stands for what.
PLANTED = [
    ("log/definitions.cc", "LockGuard guard(g_lock);", "g_lock.lock();"),
    ("log/definitions.cc", "LockGuard guard(g_lock);", "LockGuard{g_lock};"),
    ("log/log_file.cc", "LockGuard guard(g_file.lock);", "OpenLockGuard guard(g_file.lock);"),
    ("track/device_memory.cc", "  if (!book) return;\n", ""),
    ("track/device_memory.cc", "const InBook book;", "LockGuard book(g_book.lock);"),
    ("track/mapping.cc", "constinit FutexLock g_lock;", "constinit TimedLock g_lock;"),
    ("track/mapping.cc", "constinit FutexLock g_lock;", "static pthread_mutex_t g_lock;"),
    ("stack/module_map.cc", "for_each_object(", "dl_iterate_phdr("),
    ("base/lock.h", "  const SignalsHeld held_;\n", ""),
    ("track/limit.cc", "namespace gpupeak::preload {", "namespace gpupeak::preload {\nlong nap() { return sys::futex(nullptr, 0, 0); }"),
]


def planted(source):
    missed = 0
    for file, what, instead in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "preload"
            shutil.copytree(source / "preload", copy)
            text = (copy / file).read_text()
            if what not in text:
                sys.exit(f"{file} has no `{what}` any more: plant something else")
            (copy / file).write_text(text.replace(what, instead, 1))
            if not check(copy)[0]:
                print(f"not found: {file}: `{what}` made `{instead}`")
                missed += 1
    print(f"{len(PLANTED) - missed} of {len(PLANTED)} planted faults found")
    return missed == 0


if __name__ == "__main__":
    if sys.argv[1] == "--planted":
        sys.exit(0 if planted(pathlib.Path(sys.argv[2])) else 1)
    found, times = check(pathlib.Path(sys.argv[1]) / "preload")
    for lock, count in sorted(times.items()):
        print(f"{count:4} {lock}")
    print("\n".join(found))
    sys.exit(1 if found else 0)
