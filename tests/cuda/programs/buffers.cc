// A CUDA program of one's own, for the page: buffers with different lives, and more kernels than
// the page has room for. Names of kernels tell the simulated driver the sizes of their parameters.
#include <unistd.h>

#include <string>
#include <vector>

#include "client.h"

namespace {

CUmodule g_module;

/// (float const*, float*)
void launch(const std::string& name, CUdeviceptr in, CUdeviceptr out) {
  const std::string symbol = "_Z" + std::to_string(name.size()) + name + "PKfPf";
  CUfunction function;
  OK(cuModuleGetFunction(&function, g_module, symbol.c_str()));
  void* parameters[] = {&in, &out};
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
}

void wait_a_little() {
  usleep(5000);
}

void copy_in(CUdeviceptr to) {
  static char host[64];
  OK(cuMemcpyHtoD(to, host, sizeof host));
}

}  // namespace

int main() {
  use_device(0);
  OK(cuModuleLoadData(&g_module, ""));
  const CUdeviceptr grid = allocate(256 * kMiB);
  const CUdeviceptr next = allocate(256 * kMiB);
  wait_a_little();
  const CUdeviceptr scratch = allocate(128 * kMiB);
  const CUdeviceptr weights = allocate(96 * kMiB);
  allocate(64 * kMiB);  // never used
  std::vector<CUdeviceptr> small;
  for (int i = 0; i < 10; ++i) small.push_back(allocate(2 * kMiB));
  wait_a_little();
  copy_in(grid);
  copy_in(weights);
  OK(cuMemsetD8(next, 0, 64));
  wait_a_little();
  for (int i = 0; i < 3; ++i) {
    launch("stencil_takes_8_8", grid, next);
    launch("stencil_takes_8_8", next, grid);
  }
  launch("smooth_in_place_takes_8_8", scratch, scratch + 64);
  wait_a_little();
  for (int i = 1; i <= 14; ++i)
    launch("layer" + std::to_string(i) + "_takes_8_8", weights, i % 2 == 0 ? scratch : grid);
  for (const CUdeviceptr at : small) launch("gather_takes_8_8", at, next);
  CUfunction plain;
  OK(cuModuleGetFunction(&plain, g_module, "plain_takes_8_8"));
  CUdeviceptr first = grid, second = 0;
  void* parameters[] = {&first, &second};
  OK(cuLaunchKernel(plain, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  wait_a_little();
  OK(cuMemFree(scratch));
  static char host[64];
  OK(cuMemcpyDtoH(host, next, sizeof host));
  wait_a_little();
  OK(cuMemFree(next));
  wait_a_little();
  return finish();
}
