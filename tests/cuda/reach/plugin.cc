// A client of the driver, linked to it: allocates and keeps.
#include <cstddef>
#include <cstdint>

extern "C" int cuInit(unsigned);
extern "C" int cuDevicePrimaryCtxRetain(void**, int);
extern "C" int cuCtxSetCurrent(void*);
extern "C" int cuMemAlloc_v2(uint64_t*, size_t);

extern "C" int allocate_in_plugin(size_t bytes);
int allocate_in_plugin(size_t bytes) {
  void* context = nullptr;
  uint64_t at = 0;
  if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0) return 1;
  if (cuCtxSetCurrent(context) != 0) return 2;
  return cuMemAlloc_v2(&at, bytes);
}
