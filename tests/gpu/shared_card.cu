// For shared_card.py.
//   shared_card noise SECONDS TIMES_A_SECOND   takes and gives back 0.25 to 1.25 GiB
//   shared_card hold SECONDS                   keeps 1 GiB
//   shared_card program                        300 MiB, and 200 MiB of that for some time
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__global__ void add(float* at) {
  at[threadIdx.x] += 1;
}
__global__ void spill(float* at, int n) {
  float local[2048];
  for (int i = 0; i < 2048; ++i) local[i] = at[(i * n) % 32];
  for (int i = 0; i < 2048; ++i) at[i % 32] += local[(i * n) % 2048];
}

static double now() {
  timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

static int noise(double seconds, double hz) {
  const auto half = static_cast<useconds_t>(5e5 / hz);
  const double end = now() + seconds;
  for (unsigned i = getpid(); now() < end; ++i) {
    void* block = nullptr;
    cudaMalloc(&block, static_cast<size_t>(1 + i % 5) << 28);
    usleep(half);
    cudaFree(block);
    usleep(half);
  }
  return 0;
}

static int program() {
  float *a = nullptr, *b = nullptr;
  cudaStream_t streams[16];
  cudaMalloc(&a, 300 << 20);
  usleep(150000);
  cudaMalloc(&b, 200 << 20);
  add<<<1, 32>>>(a);
  for (cudaStream_t& stream : streams) cudaStreamCreate(&stream);
  spill<<<1, 32>>>(a, 7);
  cudaDeviceSynchronize();
  usleep(150000);
  cudaFree(b);
  usleep(150000);
  return cudaDeviceSynchronize() == cudaSuccess && puts("ok") > 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "program") == 0) return program();
  if (argc < 3) return 2;
  if (strcmp(what, "noise") == 0) return noise(atof(argv[2]), argc > 3 ? atof(argv[3]) : 16);
  void* block = nullptr;
  if (cudaMalloc(&block, 1 << 30) != cudaSuccess) return 1;
  usleep(static_cast<useconds_t>(atof(argv[2]) * 1e6));
  return 0;
}
