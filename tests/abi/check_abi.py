#!/usr/bin/env python3
"""What libgpupeak.so promises to every process that it is loaded into.

usage: check_abi.py LIBGPUPEAK SOURCE_FOLDER COMPILER
"""
import fnmatch
import os
import re
import subprocess
import sys

library, source, compiler = sys.argv[1:4]
failures = []


def tool(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


needed = re.findall(r"\(NEEDED\).*\[(.*)\]", tool("readelf", "-dW", library))
if needed != ["libc.so.6"]:
    failures.append(f"NEEDED is {needed}, libc.so.6 alone is allowed")

with open(os.path.join(source, "preload/hooks/exports.map")) as file:
    patterns = re.findall(r"([\w\[\]*-]+);", re.sub(r"/\*.*?\*/", "", file.read().split("local:")[0], flags=re.S))
table = tool(compiler, "-E", "-P", "-x", "c++", "-I", os.path.join(source, "preload"),
             os.path.join(source, "preload/hooks/cuda_table.def"))
rows = set(re.findall(r"\bROW\((\w+),", table))
exported = {line.split()[-1].split("@")[0] for line in tool("nm", "-D", "--defined-only", library).splitlines()}
for name in sorted(exported):
    if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
        failures.append(f"{name} is exported and not in exports.map")
    if re.match(r"cu[A-Z]", name) and name not in rows:
        failures.append(f"{name} is exported and in no row of cuda_table.def")
for name in sorted(rows - exported):
    failures.append(f"{name} is a row of cuda_table.def and not exported")
for pattern in patterns:
    if not fnmatch.filter(exported, pattern):
        failures.append(f"exports.map names {pattern}, which is not there")

# `gpupeak attach` hooks the functions of a program that runs already by their names. Not those of a program's start; not
# what it starts, which is left alone; not what is asked for once, before anybody can attach: tools, plugins.
NOT_OF_ATTACHED = {"__libc_start_main", "__asan_default_options", "execve", "execv", "execvp", "execvpe", "fexecve", "execveat", "execl",
                   "execlp", "execle", "posix_spawn", "posix_spawnp", "waitpid", "wait3", "wait4", "waitid", "OrtGetApiBase",
                   "InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"}
BY_OTHER_WAYS = ("gpupeak_*", "cu[A-Z]*")  # our own, the driver's rows
with open(os.path.join(source, "preload/hooks/attach_slots.cc")) as file:
    hooked = set(re.findall(r'"(\w+)"', re.search(r"kNames\[\] = \{(.*?)\};", file.read(), re.S)[1]))
listed = {name for name in patterns if not any(fnmatch.fnmatchcase(name, way) or name == way for way in BY_OTHER_WAYS)}
for name in sorted(listed - hooked - NOT_OF_ATTACHED):
    failures.append(f"{name} is in exports.map, and neither in attach_slots.cc nor among what is not hooked there")
for name in sorted(hooked - listed):
    failures.append(f"attach_slots.cc hooks {name}, which is not in exports.map")
for name in sorted(NOT_OF_ATTACHED & hooked | NOT_OF_ATTACHED - listed):
    failures.append(f"{name} is hooked by attach_slots.cc after all, or not in exports.map")

# A program, another preloaded library or a sanitizer may define what they like, also what is called before it is ready: of
# the C library we take no more than where errno and the environment lie and the list of what is done at exit. All else is
# our own or looked up in the C library itself (preload/base/freestanding.cc, own_libc.cc). What is weak may be missing.
KNOWN = {"__cxa_atexit", "__environ", "__errno_location", "environ"}
WEAK = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize", "__gmon_start__",
        "__register_atfork", "_dl_debug_addr", "_r_debug", "gnu_get_libc_version",
        "__asan_init", "__hwasan_init", "__lsan_init", "__lsan_do_leak_check", "__msan_init", "__tsan_init"}
for line in tool("nm", "-D", "--undefined-only", library).splitlines():
    kind, name = line.split()[-2:]
    name = name.split("@")[0]
    if name not in (KNOWN if kind == "U" else WEAK):
        failures.append(f"{name} ({kind}) is taken from whoever defines it first")

versions = {}
for line in tool("nm", "-D", "--undefined-only", library).splitlines():
    match = re.search(r"(\S+)@+GLIBC_([\d.]+)", line)
    if match:
        versions.setdefault(tuple(int(v) for v in match[2].split(".")), []).append(match[1])
    elif " U " in line:
        failures.append(f"{line.split()[-1]} is needed without a glibc version")
newest = max(versions)
print("newest glibc symbol version:", ".".join(map(str, newest)), versions[newest])
if newest > (2, 17):
    failures.append(f"symbols newer than glibc 2.17: {[(v, n) for v, n in versions.items() if v > (2, 17)]}")

for failure in failures:
    print(failure)
print(f"{len(exported)} exports, {len(failures)} failures")
sys.exit(1 if failures else 0)
