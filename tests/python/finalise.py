"""Daemon threads that allocate device memory without end while the interpreter goes down around them: the states and
frames from which they were called are freed meanwhile. They stay in C code, since a daemon thread that comes back to an
ended interpreter may crash all by itself.
"""
import ctypes
import sys
import threading
import time

cuda = ctypes.CDLL("libcuda.so.1")
churn = ctypes.CDLL(sys.argv[1]).churn
cuda.cuInit(0)
device, context = ctypes.c_int(), ctypes.c_void_p()
cuda.cuDeviceGet(ctypes.byref(device), 0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def recurse(depth):
    if depth:
        return recurse(depth - 1)
    churn(context)


class Last:
    """Freed when the interpreter takes its modules apart."""

    def __del__(self, cuda=cuda, context=context, new_pointer=ctypes.c_ulonglong, by_reference=ctypes.byref):
        cuda.cuCtxSetCurrent(context)
        cuda.cuMemAlloc_v2(by_reference(new_pointer()), 8192)


last = Last()
for i in range(6):
    threading.Thread(target=recurse, args=(5 + 10 * i,), daemon=True).start()
time.sleep(float(sys.argv[2]))
