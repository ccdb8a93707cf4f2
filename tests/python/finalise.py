"""Daemon threads that allocate device memory without end while the interpreter goes down around them."""
import ctypes
import sys
import threading
import time

cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
device, context = ctypes.c_int(), ctypes.c_void_p()
cuda.cuDeviceGet(ctypes.byref(device), 0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def recurse(depth):
    if depth:
        return recurse(depth - 1)
    pointer = ctypes.c_ulonglong()
    cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4096))
    return cuda.cuMemFree_v2(pointer)


def work():
    cuda.cuCtxSetCurrent(context)
    while True:
        recurse(10)


class Last:
    def __del__(self):
        cuda_at_end.cuCtxSetCurrent(context_at_end)
        recurse_at_end(3)


cuda_at_end, context_at_end, recurse_at_end, last = cuda, context, recurse, Last()
for _ in range(6):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[1]))
