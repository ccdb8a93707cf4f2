// The functions of CUDA 2, with 32-bit sizes and addresses, which new drivers still have.
#include "client.h"

struct Descriptor32 {
  unsigned width, height;
  CUarray_format format;
  unsigned channels;
};

extern "C" {
CUresult v1_context(CUcontext* out, unsigned flags, CUdevice device) asm("cuCtxCreate");
CUresult v1_destroy(CUcontext context) asm("cuCtxDestroy");
CUresult v1_alloc(unsigned* out, unsigned bytes) asm("cuMemAlloc");
CUresult v1_pitch(unsigned* out, unsigned* pitch, unsigned width, unsigned height,
                  unsigned element) asm("cuMemAllocPitch");
CUresult v1_free(unsigned at) asm("cuMemFree");
CUresult v1_host(void** out, unsigned bytes) asm("cuMemAllocHost");
CUresult v1_array(CUarray* out, const Descriptor32* descriptor) asm("cuArrayCreate");
CUresult v1_register(void* at, size_t bytes, unsigned flags) asm("cuMemHostRegister");
}

int main() {
  OK(cuInit(0));
  CUcontext context;
  OK(v1_context(&context, 0, 0));
  struct {
    unsigned at, guard = 0xabcdef;
  } small, large, pitched;
  unsigned pitch;
  OK(v1_alloc(&small.at, 1000));
  OK(v1_alloc(&large.at, 5 * kMiB));
  OK(v1_pitch(&pitched.at, &pitch, 100, 10, 4));
  // An answer of 64 bits would have reached the word behind.
  CHECK(small.guard == 0xabcdef && large.guard == 0xabcdef && pitched.guard == 0xabcdef);
  CHECK(live(0, "linear") == 1000 + 5 * kMiB + pitch * 10);
  void* pinned;
  OK(v1_host(&pinned, 4444));
  static char own[8192];
  OK(v1_register(own, sizeof own, 0));
  const Descriptor32 shape{20, 10, CU_AD_FORMAT_UNSIGNED_INT32, 2};
  CUarray array;
  OK(v1_array(&array, &shape));
  CHECK(live(0, "array") == 1600);
  OK(v1_free(large.at));
  OK(cuMemHostUnregister(own));
  OK(v1_destroy(context));
  CHECK(live(0, "device_total") == 0);
  return finish();
}
