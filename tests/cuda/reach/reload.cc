// Programs probe for CUDA: they load the driver, look something up and unload it. It may come back
// elsewhere.
#include <dlfcn.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#define CHECK(condition)                                            \
  if (!(condition)) {                                               \
    fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
    return 1;                                                       \
  }

int main() {
  uintptr_t places[4];
  for (size_t i = 0; i < 4; ++i) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(driver != nullptr);
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto look_up = reinterpret_cast<int (*)(const char*, void**, int, uint64_t, int*)>(
        dlsym(driver, "cuGetProcAddress_v2"));
    // Not a function that is hooked: so this is the driver's own place.
    places[i] = reinterpret_cast<uintptr_t>(dlsym(driver, "cuDriverGetVersion"));
    CHECK(init != nullptr && look_up != nullptr && places[i] != 0);
    CHECK(init(0) == 0);
    void* function = nullptr;
    int status = 9;
    CHECK(look_up("cuMemAlloc", &function, 3020, 0, &status) == 0 && function != nullptr &&
          status == 0);
    uint64_t at = 0;
    errno = 77;
    CHECK(reinterpret_cast<int (*)(uint64_t*, size_t)>(function)(&at, 1000) == 0 && at != 0);
    CHECK(errno == 77);  // the driver left it alone
    CHECK(look_up("cuMemFree", &function, 3020, 0, &status) == 0);
    CHECK(reinterpret_cast<int (*)(uint64_t)>(function)(at) == 0);
    CHECK(dlclose(driver) == 0);
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);  // it is gone
    // Takes the place, so that the next one has to go elsewhere.
    mmap(reinterpret_cast<void*>(places[i] & ~uintptr_t{4095}), 4096, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  CHECK(places[0] != places[1]);
  puts("done");
  return 0;
}
