"""Programs below `run` that cannot or need not have the library: they run as by themselves, and what is said names the cause. argv: … CASE"""
import os
import struct
import subprocess
import sys

from common import Skipped, environment, expect, for_others, gpupeak, run_case

# A 32-bit program (i386) that prints its environment and ends with 7.
I386 = bytes.fromhex("8b1c24 8d749c08 8b0e 85c9 741d 31d2 803c1100 7403 42 ebf7 42 b804000000 bb01000000 cd80 83c604 ebdd "
                     "b801000000 bb07000000 cd80")
# Stands behind the library, and says what environment a program would get from it.
SAY_PRELOAD = """
#include <errno.h>
#include <string.h>
#include <unistd.h>
int execve(const char* path, char* const* arguments, char* const* environment) {
  for (; *environment; ++environment)
    if (!strncmp(*environment, "LD_PRELOAD=", 11)) write(1, *environment, strlen(*environment) + 1);
  return errno = ENOENT, -1;
}
"""

def run(folder, *command, options=(), user=None, **more):
    tool = for_others()[1] if user is not None else gpupeak_path()
    env = dict(environment(folder, False), **more)
    return subprocess.run([tool, "run", *options, "-o", os.path.join(folder, "log.gplog"), "--", *command], env=env, cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, user=user)


def gpupeak_path():
    return sys.argv[2]


def program_of_32_bits(folder):
    path, base = os.path.join(folder, "program32"), 0x8048000
    size = 52 + 32 + len(I386)
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    segment = struct.pack("<8I", 1, 0, base, base, size, size, 5, 4096)
    with open(path, "wb") as file:
        file.write(header + segment + I386)
    os.chmod(path, 0o755)
    return path


def preload_of(done):
    return [entry for entry in done.stdout.split("\0") if entry.startswith("LD_PRELOAD=")]


def bits32(folder):
    """Its loader would write to its standard error that it cannot have the library."""
    program = program_of_32_bits(folder)
    try:
        subprocess.run([program], env={}, check=False)
    except OSError as error:
        raise Skipped(f"such a program does not run here: {error}") from error
    done = run(folder, program)
    expect("nothing was measured: it is a 32-bit program" in done.stderr, f"said: {done.stderr}")
    expect(done.returncode == 7 and preload_of(done) == [], f"exit code {done.returncode}, it gets {preload_of(done)}")


def bits32_child(folder):
    """The same of a program that the recorded one starts. Other libraries stay."""
    program, library = program_of_32_bits(folder), os.path.join(folder, "say.so")
    done = subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=SAY_PRELOAD, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"no compiler: {done.stderr}")
    for others, wanted in ((library, library), (f"{library} libm.so.6", f"{library}:libm.so.6")):
        done = run(folder, "sh", "-c", f"exec {program}", options=["-q"], LD_PRELOAD=others)
        expect(preload_of(done) == ["LD_PRELOAD=" + wanted], f"{preload_of(done)}, not {wanted}: {done}")
    done = run(folder, "sh", "-c", "exec /bin/true", options=["-q"], LD_PRELOAD=library)
    expect(len(preload_of(done)) == 1 and "libgpupeak.so" in preload_of(done)[0], f"a program of ours gets {preload_of(done)}")


def capabilities(folder):
    """A file with capabilities loads no library for others."""
    if os.geteuid() != 0:
        raise Skipped("only root gives a file capabilities")
    os.chmod(folder, 0o777)
    program = os.path.join(folder, "able")
    subprocess.run(["cp", "/bin/true", program], check=True)
    net_raw, effective_revision_2 = 1 << 13, 0x02000001
    try:
        os.setxattr(program, "security.capability", struct.pack("<5I", effective_revision_2, net_raw, 0, 0, 0))
    except OSError as error:
        raise Skipped(f"no capabilities of files here: {error}") from error
    done = run(folder, program, user=65534)
    expect(done.returncode == 0 and "nothing was measured: its file has capabilities" in done.stderr, f"{done}")


def nested(folder):
    """What a run within a run records is said to be recorded there."""
    tool = gpupeak_path()
    program = "import time; x = bytearray(80_000_000); time.sleep(0.6); y = bytearray(40_000_000)"
    done = run(folder, tool, "run", "-q", "--names", "none", "-o", "inner.gplog", "--", sys.executable, "-c", program)
    expect(done.returncode == 0 and "a run within this one records it" in done.stderr, f"{done.stderr}")
    expect("little of it is heap" not in done.stderr and done.stderr.count("not recorded: ") == 1, f"{done.stderr}")
    code, text = gpupeak("report", os.path.join(folder, "inner.gplog"))
    expect(code == 0 and "114" in text, f"the inner run: {text}")


run_case(globals()[sys.argv[3]])
