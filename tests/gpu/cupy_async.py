"""CuPy on the driver's own pool (cudaMallocAsync); prints what is in use last."""
import cupy

cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
a = cupy.ones((4096, 4096), dtype=cupy.float32)
b = a @ a
print(float(b[0, 0]))
cupy.cuda.Device().synchronize()
free_bytes, total_bytes = cupy.cuda.runtime.memGetInfo()
print("in_use", total_bytes - free_bytes)
