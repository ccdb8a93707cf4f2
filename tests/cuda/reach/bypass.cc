// Opens a client of the driver so that no preloaded library comes before it: bypass
// deepbind|dlmopen PLUGIN.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

int main(int, char** arguments) {
  void* const plugin = strcmp(arguments[1], "deepbind") == 0
                           ? dlopen(arguments[2], RTLD_NOW | RTLD_DEEPBIND)
                           : dlmopen(LM_ID_NEWLM, arguments[2], RTLD_NOW);
  if (plugin == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const auto allocate = reinterpret_cast<int (*)(size_t)>(dlsym(plugin, "allocate_in_plugin"));
  if (allocate == nullptr || allocate(123456789) != 0) return 2;
  puts("done");
  return 0;
}
