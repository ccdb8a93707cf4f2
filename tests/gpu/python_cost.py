"""What Python call sites cost: run alone, under gpupeak with --python off, and with --python auto."""
import time

import cupy


def pairs(count):
    began = time.perf_counter()
    for _ in range(count):
        cupy.cuda.alloc(4096)
    return (time.perf_counter() - began) / count * 1e6


def deep(depth, count):
    return pairs(count) if depth == 0 else deep(depth - 1, count)


def linear(count):
    began = time.perf_counter()
    for _ in range(count):
        cupy.cuda.runtime.free(cupy.cuda.runtime.malloc(4 << 20))
    return (time.perf_counter() - began) / count * 1e6


cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
pairs(200)
print(f"cudaMallocAsync and cudaFreeAsync: {min(deep(0, 500) for _ in range(7)):.2f} us below 3 Python frames, "
      f"{min(deep(30, 500) for _ in range(7)):.2f} us below 33")
cupy.cuda.set_allocator(None)
print(f"cudaMalloc and cudaFree: {min(linear(200) for _ in range(5)):.2f} us")
