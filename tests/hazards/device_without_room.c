/* The log's room ends among small blocks of the device's; then a large one comes. Only the counters page sees it. */
#include <dlfcn.h>
#include <stdio.h>

typedef unsigned long long pointer;
enum { kBlocks = 20000 };

int main(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) return 77;
  int (*init)(unsigned);
  int (*create)(void**, unsigned, int);
  int (*allocate)(pointer*, size_t);
  int (*release)(pointer);
  *(void**)&init = dlsym(driver, "cuInit");
  *(void**)&create = dlsym(driver, "cuCtxCreate_v2");
  *(void**)&allocate = dlsym(driver, "cuMemAlloc_v2");
  *(void**)&release = dlsym(driver, "cuMemFree_v2");
  void* context;
  if (init(0) != 0 || create(&context, 0, 0) != 0) return 1;
  pointer at;
  for (int i = 0; i < kBlocks; ++i) {
    if (allocate(&at, 1000) != 0 || release(at) != 0) return 1;
  }
  if (allocate(&at, (size_t)3 << 30) != 0 || release(at) != 0) return 1;
  puts("ok");
  return 0;
}
