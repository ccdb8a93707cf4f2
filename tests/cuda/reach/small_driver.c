/* A driver of a few functions that dlclose really unloads, as it does the real one before cuInit.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint64_t next_address = UINT64_C(0x700000000000);

int cuInit(unsigned flags) {
  return (int)flags;
}
int cuDriverGetVersion(int* out) {
  *out = 13000;
  return 0;
}
int cuCtxGetCurrent(void** out) {
  *out = &next_address;
  return 0;
}
int cuCtxGetDevice(int* out) {
  *out = 0;
  return 0;
}
int cuMemAlloc_v2(uint64_t* out, size_t bytes) {
  *out = next_address;
  next_address += bytes;
  return 0;
}
int cuMemFree_v2(uint64_t at) {
  return at == 0;
}
/* Allocators that no hook knows: by a new name, and by a new ABI of an old one. */
int cuMemAllocShiny(uint64_t* out, size_t bytes) {
  return cuMemAlloc_v2(out, bytes);
}
static int newer_pitch(uint64_t* out, size_t bytes) {
  return cuMemAlloc_v2(out, bytes);
}

int cuGetProcAddress_v2(const char* name, void** out, int version, uint64_t flags, int* status) {
  (void)flags;
  *out = NULL;
  if (strcmp(name, "cuMemAlloc") == 0 && version >= 3020) *out = (void*)&cuMemAlloc_v2;
  if (strcmp(name, "cuMemFree") == 0 && version >= 3020) *out = (void*)&cuMemFree_v2;
  if (strcmp(name, "cuMemAllocPitch") == 0 && version >= 14000) *out = (void*)&newer_pitch;
  if (status != NULL) *status = *out == NULL;
  return 0;
}
