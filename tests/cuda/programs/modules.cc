// Launches the kernels of a module that stays, while others come and go, as in a program that
// compiles at run time. What the parameters are is asked anew each time; what is known of them
// takes no more memory than before.
#include <string>
#include <vector>

#include "client.h"

namespace {

uint64_t anonymous_kib() {
  FILE* const status = fopen("/proc/self/status", "r");
  CHECK(status != nullptr);
  char line[256];
  unsigned long kib = 0;
  while (fgets(line, sizeof line, status) != nullptr && sscanf(line, "RssAnon: %lu", &kib) != 1) {
  }
  fclose(status);
  return kib;
}

}  // namespace

int main() {
  use_device(0);
  CUmodule kept;
  OK(cuModuleLoadData(&kept, "x"));
  std::string takes = "_takes";
  constexpr int kFunctions = 200, kParameters = 64;
  for (int i = 0; i < kParameters; ++i) takes += "_8";
  std::vector<CUfunction> functions(kFunctions);
  for (int i = 0; i < kFunctions; ++i)
    OK(cuModuleGetFunction(&functions[i], kept, ("k" + std::to_string(i) + takes).c_str()));
  CUdeviceptr block = allocate(kMiB);
  std::vector<void*> parameters(kParameters, &block);
  uint64_t before = 0;
  for (int round = 0; round < 60; ++round) {
    if (round == 10) before = anonymous_kib();
    for (CUfunction function : functions)
      OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters.data(), nullptr));
    CUmodule other;
    OK(cuModuleLoadData(&other, "y"));
    OK(cuModuleUnload(other));
  }
  const uint64_t grown = anonymous_kib() - before;
  CHECK(grown < kKiB);
  OK(cuMemFree(block));
  OK(cuModuleUnload(kept));
  return finish();
}
