// Two threads allocate and free the same size all the time, so that each soon gets the address that
// the other has just freed.
#include <thread>

#include "client.h"

int main() {
  const CUcontext context = use_device(0);
  const auto work = [&] {
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 3000; ++i) OK(cuMemFree(allocate(512)));
    for (int i = 0; i < 1000; ++i) OK(cuMemFree(allocate(4 * kMiB)));
  };
  std::thread first(work), second(work);
  first.join();
  second.join();
  CHECK(live(0, "linear") == 0);
  allocate(77);
  return finish();
}
