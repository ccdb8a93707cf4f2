// Functions of other libraries under CUDA's names are theirs, with and without a driver in the
// process.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#define CHECK(condition)                                            \
  if (!(condition)) {                                               \
    fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
    return 1;                                                       \
  }

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "driver") == 0)
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr);
  void* foreign = dlopen("libforeign.so", RTLD_NOW | RTLD_LOCAL);
  CHECK(foreign != nullptr);
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(foreign, "cuInit"));
  const auto allocate = reinterpret_cast<int (*)()>(dlsym(foreign, "cuMemAlloc_v2"));
  const auto nothing = reinterpret_cast<int (*)()>(dlsym(foreign, "cuNothingOfTheKind"));
  CHECK(init != nullptr && init(7) == 4207);
  CHECK(allocate != nullptr && allocate() == 4242);
  CHECK(nothing != nullptr && nothing() == 43);
  dlerror();
  CHECK(dlsym(foreign, "cuMemFree_v2") == nullptr && strstr(dlerror(), "cuMemFree_v2") != nullptr);
  CHECK(dlsym(foreign, "curl_easy_init") == nullptr &&
        strstr(dlerror(), "curl_easy_init") != nullptr);
  puts("done");
  return 0;
}
