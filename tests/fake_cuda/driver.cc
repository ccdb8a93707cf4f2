#include "driver.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "config.h"

namespace fake_cuda {

Driver& driver() {
  static auto* const instance = new Driver;
  return *instance;
}

Figures& figures_of(int ordinal) {
  constexpr size_t kBytes = 64 * sizeof(Figures);
  static auto* const all = [] {
    const char* const name = getenv("FAKE_CUDA_SHARED");
    const int file = name != nullptr ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file >= 0 && ftruncate(file, kBytes) != 0) abort();
    void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                          file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
    if (file >= 0) close(file);
    return static_cast<Figures*>(at);
  }();
  return all[ordinal];
}

uint64_t in_use(const Device& device) {
  if (!config().integrated) return device.taken;
  unsigned long long pages = 0;
  if (FILE* const file = fopen("/proc/self/statm", "r"); file != nullptr) {
    if (fscanf(file, "%*u %llu", &pages) != 1) pages = 0;
    fclose(file);
  }
  return device.taken + pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

bool take_memory(int device, uint64_t bytes) {
  if (device < 0) return true;
  Device& owner = *driver().devices[static_cast<size_t>(device)];
  if (bytes > config().memory_bytes - in_use(owner)) return false;
  owner.taken += bytes;
  return true;
}

void give_memory(int device, uint64_t bytes) {
  if (device >= 0) driver().devices[static_cast<size_t>(device)]->taken -= bytes;
}

Device* device_of(CUdevice ordinal) {
  auto& devices = driver().devices;
  const bool exists = ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size();
  return exists ? devices[static_cast<size_t>(ordinal)].get() : nullptr;
}

namespace {

/// Only a process that used the driver writes a ledger. Its forked children do not.
__attribute__((destructor)) void at_exit() {
  if (!driver().initialised || driver().pid != getpid()) return;
  const std::lock_guard guard(driver().lock);
  write_ledger();
}

}  // namespace
}  // namespace fake_cuda
