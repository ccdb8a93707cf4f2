// Memory that another owns counts as imported only: external buffers, pool pointers, IPC handles
// opened twice.
#include "client.h"

int main() {
  use_device(0);
  const CUdeviceptr own = allocate(5 * kMiB);
  CUexternalMemory external;
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC what{};
  OK(cuImportExternalMemory(&external, &what));
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC shape{};
  shape.size = 3 * kMiB;
  CUdeviceptr buffer, kept;
  OK(cuExternalMemoryGetMappedBuffer(&buffer, external, &shape));
  OK(cuExternalMemoryGetMappedBuffer(&kept, external, &shape));
  OK(cuMemFree(buffer));
  OK(cuDestroyExternalMemory(external));
  CUipcMemHandle handle;
  OK(cuIpcGetMemHandle(&handle, own));
  CUdeviceptr opened, again;
  OK(cuIpcOpenMemHandle(&opened, handle, 0));
  OK(cuIpcOpenMemHandle(&again, handle, 0));
  CHECK(opened == again);
  CHECK(live(0, "imported") == 8 * kMiB && live(0, "device_total") == 5 * kMiB);
  OK(cuIpcCloseMemHandle(opened));
  CHECK(live(0, "imported") == 8 * kMiB);  // still open once
  OK(cuIpcCloseMemHandle(again));
  CHECK(cuIpcCloseMemHandle(again) != CUDA_SUCCESS);
  CHECK(live(0, "imported") == 3 * kMiB);
  return finish();
}
