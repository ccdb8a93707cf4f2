/* A client that has asked cuGetProcAddress for its functions and keeps them in a table, as CUDA's runtime does; others
 * it calls by name. Told by lines of standard input, each answered by one line.
 *   table N B   N blocks of B bytes by the table
 *   name N B    N blocks of B bytes by the exported function
 *   heap N B    N blocks of B bytes by a table on the heap, which nobody searches
 *   import B    maps B bytes that another interface has allocated; drop: frees them
 *   free N      frees the last N, in turns by the table and by name
 *   hooked      how many words of its table and of its own slots lead into libgpupeak.so
 * usage: attach_device */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

enum { kMost = 10000 };

static struct {
  CUresult (*allocate)(CUdeviceptr*, size_t);
  CUresult (*release)(CUdeviceptr);
} g_table;
static CUresult (**g_heap_table)(CUdeviceptr*, size_t);
static CUdeviceptr g_imported;
static CUdeviceptr g_blocks[kMost];
static int g_count;

static int leads_to_us(const void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 && strstr(info.dli_fname, "libgpupeak.so") != NULL;
}

__attribute__((noinline)) static void hold(int count, unsigned long bytes, CUresult (*allocate)(CUdeviceptr*, size_t)) {
  for (int i = 0; i < count && g_count < kMost; ++i) {
    const CUresult result = allocate != NULL ? allocate(&g_blocks[g_count], bytes) : cuMemAlloc(&g_blocks[g_count], bytes);
    if (result == CUDA_SUCCESS) ++g_count;
  }
}

static int import(unsigned long bytes) {
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC what = {0};
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC shape = {0};
  CUexternalMemory external;
  shape.size = bytes;
  return cuImportExternalMemory(&external, &what) == CUDA_SUCCESS &&
         cuExternalMemoryGetMappedBuffer(&g_imported, external, &shape) == CUDA_SUCCESS;
}

int main(void) {
  CUdevice device;
  CUcontext context;
  CUdriverProcAddressQueryResult found;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS ||
      cuGetProcAddress("cuMemAlloc", (void**)&g_table.allocate, 12000, 0, &found) != CUDA_SUCCESS ||
      cuGetProcAddress("cuMemFree", (void**)&g_table.release, 12000, 0, &found) != CUDA_SUCCESS)
    return 1;
  g_heap_table = malloc(sizeof *g_heap_table);
  *g_heap_table = g_table.allocate;
  static char line[256];
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("ready\n");
  while (fgets(line, sizeof line, stdin) != NULL) {
    int count = 0;
    unsigned long bytes = 0;
    if (sscanf(line, "table %d %lu", &count, &bytes) == 2) {
      hold(count, bytes, g_table.allocate);
    } else if (sscanf(line, "name %d %lu", &count, &bytes) == 2) {
      hold(count, bytes, NULL);
    } else if (sscanf(line, "heap %d %lu", &count, &bytes) == 2) {
      hold(count, bytes, *g_heap_table);
    } else if (sscanf(line, "import %lu", &bytes) == 1) {
      if (!import(bytes)) return 4;
    } else if (strcmp(line, "drop\n") == 0) {
      cuMemFree(g_imported);
    } else if (sscanf(line, "free %d", &count) == 1) {
      for (; count > 0 && g_count > 0; --count) {
        const CUdeviceptr block = g_blocks[--g_count];
        if (count % 2 == 0)
          g_table.release(block);
        else
          cuMemFree(block);
      }
    } else if (strcmp(line, "hooked\n") == 0) {
      const void* words[2];
      memcpy(words, &g_table, sizeof words);
      printf("%d\n", leads_to_us(words[0]) + leads_to_us(words[1]));
      continue;
    }
    printf("%d\n", g_count);
  }
  printf("done\n");
  return 3;
}
