// Asks a driver for allocators that gpupeak has no hooks for. "asks": by both ways; else by none.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

int main(int count, char** arguments) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 1;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  if (init(0) != 0) return 2;
  if (count > 1 && strcmp(arguments[1], "asks") == 0) {
    using Allocate = int (*)(uint64_t*, size_t);
    uint64_t at = 0;
    const auto shiny = reinterpret_cast<Allocate>(dlsym(driver, "cuMemAllocShiny"));
    if (shiny(&at, 100) != 0) return 3;
    using Lookup = int (*)(const char*, void**, int, uint64_t, int*);
    const auto look_up = reinterpret_cast<Lookup>(dlsym(driver, "cuGetProcAddress_v2"));
    void* pitch = nullptr;
    int status = 0;
    if (look_up("cuMemAllocPitch", &pitch, 14000, 0, &status) != 0 || pitch == nullptr) return 4;
  }
  puts("done");
  return 0;
}
