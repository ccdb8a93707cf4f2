// Without a driver, CUDA is not there: no name of it is found, and dlerror says the usual.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

#define CHECK(condition)                                            \
  if (!(condition)) {                                               \
    fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
    return 1;                                                       \
  }

int main() {
  CHECK(dlopen("libcuda.so.1", RTLD_NOW) == nullptr);
  for (const char* name :
       {"cuInit", "cuMemAlloc_v2", "cuGetProcAddress_v2", "cuStreamSynchronize_ptsz"}) {
    CHECK(dlsym(RTLD_DEFAULT, name) == nullptr);
    const char* error = dlerror();
    CHECK(error != nullptr && strstr(error, name) != nullptr &&
          strstr(error, "undefined symbol") != nullptr);
    CHECK(dlsym(dlopen(nullptr, RTLD_NOW), name) == nullptr);
  }
  puts("done");
  return 0;
}
