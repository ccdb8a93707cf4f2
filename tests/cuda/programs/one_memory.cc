// A known amount of each kind of memory that device and host may share, all of it live at once and
// all of it touched. Its errno stays its own.
#include <cerrno>
#include <cstring>

#include "client.h"

extern "C" void fake_cuda_touch(unsigned long long at);

int main() {
  OK(cuInit(0));
  CUdevice device;
  OK(cuDeviceGet(&device, 0));
  CUcontext context;
  errno = ENOTTY;  // which no call of the driver gives
  OK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(errno == ENOTTY);
  OK(cuCtxSetCurrent(context));
  allocate(64 * kMiB);
  CUdeviceptr managed;
  OK(cuMemAllocManaged(&managed, 32 * kMiB, CU_MEM_ATTACH_GLOBAL));
  fake_cuda_touch(managed);
  void* pinned;
  OK(cuMemAllocHost(&pinned, 16 * kMiB));
  memset(pinned, 1, 16 * kMiB);
  void* const heap = malloc(48 * kMiB);
  CHECK(heap != nullptr);
  memset(heap, 1, 48 * kMiB);
  OK(cuMemHostRegister(heap, 8 * kMiB, 0));
  // The driver is asked at the free after a new maximum.
  OK(cuMemFree(allocate(4 * kMiB)));
  return finish();
}
