/* Opened with RTLD_DEEPBIND, so that its calls go to libc's own dlopen and dlclose, past every
 * preloaded library. */
#include <dlfcn.h>
#include <stddef.h>

int manage(const char* path, void (*use)(void* plugin_call)) {
  void* plugin = dlopen(path, RTLD_NOW);
  if (plugin == NULL) return 1;
  use(dlsym(plugin, "plugin_call"));
  return dlclose(plugin);
}
