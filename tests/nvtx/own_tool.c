/* Another tool, which counts: an injection library, or with OWN_TOOL_STATIC a part of the program.
 */
#include <stdio.h>
#include <stdlib.h>

typedef void (*Function)(void);
typedef struct {
  size_t struct_bytes;
  int (*get_module_table)(int module, Function*** table, unsigned* count);
} Callbacks;

static int g_pushed;
static int push(const char* name) {
  (void)name;
  return g_pushed++;
}
static void report(void) {
  printf("own tool: %d pushes\n", g_pushed);
}

#ifdef OWN_TOOL_STATIC
static int initialize(const void* (*)(unsigned));
int (*InitializeInjectionNvtx2_fnptr)(const void* (*)(unsigned)) = initialize;
static
#else
#define initialize InitializeInjectionNvtx2
#endif
    int
    initialize(const void* (*get_export_table)(unsigned)) {
  const Callbacks* callbacks = get_export_table(1);
  Function** table;
  unsigned count;
  if (callbacks->get_module_table(1, &table, &count) == 0 || count <= 9) return 0;
  *table[9] = (Function)push;
  atexit(report);
  return 1;
}
