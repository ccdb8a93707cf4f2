/* What load_plugins.c loads and unloads. */
#include <stdlib.h>
void* plugin_allocate(size_t bytes) {
  return malloc(bytes);
}
