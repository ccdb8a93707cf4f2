"""A program on the simulated driver that goes on step by step, to be looked at while it runs."""
import os
import sys

from common import Program, environment, expect

# It does a step for each line that it reads: "N" allocates N MiB of GPU 0, "free" frees the last of these blocks, "host N" allocates
# N MiB of the heap, "touch N" does the same and writes to them, "loop N" allocates and frees 64 bytes of the heap, N times.
CLIENT = """
import ctypes, sys
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def ok(result): assert result == 0, result
context, device, blocks = ctypes.c_void_p(), ctypes.c_int(), []
ok(cuda.cuInit(0)); ok(cuda.cuDeviceGet(ctypes.byref(device), 0)); ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
ok(cuda.cuCtxSetCurrent(context))
print("ready", flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "free":
        ok(cuda.cuMemFree_v2(ctypes.c_uint64(blocks.pop())))
    elif words[0] == "host":
        libc.malloc(ctypes.c_size_t(int(words[1]) << 20))
    elif words[0] == "touch":
        blocks.append(bytearray(int(words[1]) << 20))
        blocks[-1][::4096] = bytes(len(blocks[-1][::4096]))
    elif words[0] == "loop":
        for _ in range(int(words[1])):
            libc.free(libc.malloc(ctypes.c_size_t(64)))
    else:
        at = ctypes.c_uint64()
        ok(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(line) << 20)))
        blocks.append(at.value)
    print("done", flush=True)
"""


class SteppedProgram(Program):
    def __init__(self, log, driver, **more):
        env = environment(os.path.dirname(log), True, GPUPEAK_OUT=log, LD_LIBRARY_PATH=driver, **more)
        super().__init__(log, [sys.executable, "-c", CLIENT], env)

    def step(self, line):
        expect(self.tell(line) == "done", "the client has ended")

    def end(self):
        super().end(out="")
