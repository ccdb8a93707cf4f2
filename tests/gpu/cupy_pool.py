"""CuPy's memory pool: one large array, a product, everything given back."""
import cupy

a = cupy.ones((4096, 4096), dtype=cupy.float32)
b = a @ a
cupy.cuda.Device().synchronize()
print("total_bytes", cupy.get_default_memory_pool().total_bytes())
del a, b
cupy.get_default_memory_pool().free_all_blocks()
