"""A kernel of numba's over two arrays, one of them made on the device."""
import numpy
from numba import cuda


@cuda.jit
def scale(source, target):
    i = cuda.grid(1)
    if i < source.size:
        target[i] = 2 * source[i]


source = cuda.to_device(numpy.ones(64 << 20, numpy.float32))
target = cuda.device_array_like(source)
scale[(source.size + 255) // 256, 256](source, target)
print(target[:3].copy_to_host(), cuda.current_context().get_memory_info())
