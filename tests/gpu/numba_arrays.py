"""Arrays of numba's on the device: one copied there, one made there."""
import numpy
from numba import cuda

source = cuda.to_device(numpy.ones(64 << 20, numpy.float32))
target = cuda.device_array_like(source)
target.copy_to_device(source)
print(target[:3].copy_to_host(), cuda.current_context().get_memory_info())
