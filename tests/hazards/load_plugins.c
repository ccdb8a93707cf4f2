/* dlopen and dlclose in a loop, also with RTLD_DEEPBIND, allocating from the plugin each time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (int i = 0; i < 200; ++i) {
    void* library = dlopen(argv[1], i % 2 ? RTLD_NOW : RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!library) return 3;
    void* (*allocate)(size_t);
    *(void**)&allocate = dlsym(library, "plugin_allocate");
    if (!allocate || dlsym(library, "cuNoSuchFunction") || !dlerror()) return 4;
    free(allocate(5000));
    if (dlclose(library) != 0) return 5;
  }
  if (dlsym(RTLD_DEFAULT, "cuInit")) return 6; /* there is no driver here */
  if (!dlerror()) return 7;
  if (dlsym(RTLD_NEXT, "malloc") == 0) return 8;
  puts("done");
  return 0;
}
