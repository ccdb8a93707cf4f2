// A CUDA program of a third of a second, which prints when it came to main, through cuInit, to its context, its memory,
// its first launch, through a thousand more, and to its result: milliseconds of CLOCK_MONOTONIC. short.py runs it.
#include <cuda.h>

#include <cstdio>
#include <ctime>
#include <vector>

__global__ void add(const float* a, float* b, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) b[i] += a[i];
}

static double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main() {
  std::vector<double> at{now()};
  cuInit(0);
  at.push_back(now());
  cudaFree(nullptr);
  at.push_back(now());
  const int n = 4 << 20;
  float *in, *out;
  cudaMalloc(&in, n * sizeof *in);
  cudaMalloc(&out, n * sizeof *out);
  cudaMemset(in, 0, n * sizeof *in);
  cudaMemset(out, 0, n * sizeof *out);
  at.push_back(now());
  add<<<n / 256, 256>>>(in, out, n);
  cudaDeviceSynchronize();
  at.push_back(now());
  for (int i = 0; i < 1000; ++i) add<<<n / 256, 256>>>(in, out, n);
  cudaDeviceSynchronize();
  at.push_back(now());
  std::vector<float> some(1 << 16);
  cudaMemcpy(some.data(), out, some.size() * sizeof some[0], cudaMemcpyDeviceToHost);
  at.push_back(now());
  for (const double time : at) printf("%.3f ", time);
  printf("\n");
}
