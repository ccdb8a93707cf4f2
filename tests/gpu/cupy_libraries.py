"""cuBLAS, cuFFT, cuSOLVER and cuRAND through CuPy; prints what is in use last."""
import cupy

a = cupy.random.rand(2048, 2048, dtype=cupy.float32)
print(float((a @ a).sum()) > 0, abs(complex(cupy.fft.fft2(a).sum())) > 0)
print(cupy.linalg.solve(a, a[:, :8]).shape)
cupy.cuda.Device().synchronize()
free_bytes, total_bytes = cupy.cuda.runtime.memGetInfo()
print("in_use", total_bytes - free_bytes)
