// As nvcc builds a program unless it is told otherwise: cudart is inside, without names of its own.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__attribute__((noinline)) void* load_weights(size_t bytes) {
  void* weights = nullptr;
  cudaMalloc(&weights, bytes);
  cudaMemset(weights, 0, bytes);
  return weights;
}
__attribute__((noinline)) void* make_workspace(size_t bytes, cudaStream_t stream) {
  void* workspace = nullptr;
  cudaMallocAsync(&workspace, bytes, stream);
  return workspace;
}

int main() {
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  std::vector<void*> layers;
  for (int layer = 0; layer < 12; ++layer) layers.push_back(load_weights(size_t{8} << 20));
  for (int step = 0; step < 3; ++step) {
    void* workspace = make_workspace(size_t{96} << 20, stream);
    cudaMemsetAsync(workspace, 0, size_t{96} << 20, stream);
    cudaFreeAsync(workspace, stream);
  }
  cudaDeviceSynchronize();
  for (void* weights : layers) cudaFree(weights);
  std::puts(cudaGetErrorString(cudaGetLastError()));
}
