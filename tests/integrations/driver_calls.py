"""A text of Python that calls the driver: `alloc(bytes)` gives an address, `free(address)` takes it back. Programs that are recorded begin with it."""
DRIVER_CALLS = """
import ctypes
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
MIB = 1 << 20
def ok(result): assert result == 0, result
context, device = ctypes.c_void_p(), ctypes.c_int()
ok(cuda.cuInit(0)); ok(cuda.cuDeviceGet(ctypes.byref(device), 0)); ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
def alloc(size):
    ok(cuda.cuCtxSetCurrent(context))
    at = ctypes.c_uint64()
    ok(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
    return at.value
def free(at): ok(cuda.cuMemFree_v2(ctypes.c_uint64(at)))
"""
