/* The protocol of NVTX 2, as its library speaks it: the tool's path from the environment, two
 * tables. Here the library and a program that uses it are one. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*Function)(void);
typedef struct {
  size_t struct_bytes;
  int (*get_module_table)(int module, Function*** table, unsigned* count);
} Callbacks;

static Function g_core[17];
static Function* g_core_places[16];

static int get_module_table(int module, Function*** table, unsigned* count) {
  if (module != 1) return 0; /* older than domains */
  *table = g_core_places;
  *count = 16;
  return 1;
}
static const Callbacks g_callbacks = {sizeof(Callbacks), get_module_table};
static const void* get_export_table(unsigned table) {
  return table == 1 ? &g_callbacks : NULL;
}

int main(void) {
  for (int i = 0; i < 16; ++i) g_core_places[i] = &g_core[i];
  const char* path = getenv("NVTX_INJECTION64_PATH");
  if (path != NULL) {
    void* tool = dlopen(path, RTLD_LAZY);
    int (*initialize)(const void* (*)(unsigned)) = NULL;
    if (tool != NULL) *(void**)&initialize = dlsym(tool, "InitializeInjectionNvtx2");
    if (initialize == NULL || initialize(get_export_table) == 0) puts("the tool does not start");
  }
  if (g_core[9] != NULL) ((int (*)(const char*))g_core[9])("by version 2");
  void* volatile block = malloc(1000000);
  free(block);
  if (g_core[11] != NULL) ((int (*)(void))g_core[11])();
  if (g_core[16] != NULL) puts("beyond the table");
  return 0;
}
