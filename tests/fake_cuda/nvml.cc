// The part of NVML that tells of memory, on top of the simulated driver: libnvidia-ml.so.1 in this
// folder of the build. FAKE_NVML=off: NVML is there and does not work. FAKE_NVML_PROCESSES names a
// file with a line "DEVICE PID BYTES" for each process that uses a device, since a simulated driver
// knows only its own process. Once NVML has told of such a process, a file of that name and ".told"
// exists.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

// Functions of the simulated driver. They tell of all processes' use of a device.
extern "C" unsigned long long fake_cuda_used(int device);
extern "C" unsigned long long fake_cuda_total(int device);
extern "C" unsigned long long fake_cuda_used_by_others(int device);
extern "C" int fake_cuda_device_count();
extern "C" int fake_cuda_is_integrated();

namespace {

constexpr int kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7,
              kUninitialized = 1;
constexpr uint64_t kReserve = 600ull << 20;

struct Memory {
  uint64_t total, free, used;
};
struct MemoryV2 {
  unsigned version;
  uint64_t total, reserved, free, used;
};
struct ProcessInfo {
  unsigned pid;
  uint64_t used;
  unsigned gpu_instance, compute_instance;
};

bool is_off() {
  const char* value = getenv("FAKE_NVML");
  return value != nullptr && strcmp(value, "off") == 0;
}

/// Takes up to FAKE_NVML_DELAY_US microseconds: in this time other threads go on.
void dawdle() {
  static const char* const longest = getenv("FAKE_NVML_DELAY_US");
  if (longest == nullptr) return;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  usleep(static_cast<useconds_t>(now.tv_nsec % (atol(longest) + 1)));
}

int ordinal_of(void* device) {
  return static_cast<int>(reinterpret_cast<intptr_t>(device)) - 1;
}

int processes_in(const char* file, int ordinal, unsigned* count, ProcessInfo* out) {
  FILE* lines = fopen(file, "r");
  unsigned found = 0;
  int device = 0;
  unsigned pid = 0;
  unsigned long long bytes = 0;
  while (lines != nullptr && fscanf(lines, "%d %u %llu", &device, &pid, &bytes) == 3) {
    if (device != ordinal || found == *count) continue;
    out[found++] = {pid, bytes, 0, 0};
  }
  if (lines != nullptr) fclose(lines);
  *count = found;
  if (found > 0) {
    const std::string told = std::string(file) + ".told";
    if (FILE* mark = fopen(told.c_str(), "w"); mark != nullptr) fclose(mark);
  }
  return 0;
}

}  // namespace

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

NVML_EXPORT int nvmlInit_v2();
NVML_EXPORT int nvmlDeviceGetCount_v2(unsigned* count);
NVML_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** out);
NVML_EXPORT int nvmlDeviceGetUUID(void* device, char* out, unsigned bytes);
NVML_EXPORT int nvmlDeviceGetName(void* device, char* out, unsigned bytes);
NVML_EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, void** out);
NVML_EXPORT int nvmlDeviceGetMemoryInfo(void* device, Memory* out);
NVML_EXPORT int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryV2* out);
NVML_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                                        ProcessInfo* out);

int nvmlInit_v2() {
  return is_off() ? kUninitialized : 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(fake_cuda_device_count());
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** out) {
  if (static_cast<int>(index) >= fake_cuda_device_count()) return kNotFound;
  *out = reinterpret_cast<void*>(static_cast<intptr_t>(index) + 1);
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* out, unsigned bytes) {
  snprintf(out, bytes, "GPU-10111213-1415-1617-1819-1a1b1c1d1e%02x", ordinal_of(device));
  return 0;
}

int nvmlDeviceGetName(void* device, char* out, unsigned bytes) {
  snprintf(out, bytes, "Simulated GPU, number %d", ordinal_of(device));
  return 0;
}

/// UUIDs of simulated devices differ only in the last byte.
int nvmlDeviceGetHandleByUUID(const char* uuid, void** out) {
  const size_t length = strlen(uuid);
  if (strncmp(uuid, "GPU-", 4) != 0 || length < 2) return kInvalidArgument;
  const auto ordinal = strtol(uuid + length - 2, nullptr, 16);
  if (ordinal >= fake_cuda_device_count()) return kNotFound;
  *out = reinterpret_cast<void*>(static_cast<intptr_t>(ordinal + 1));
  return 0;
}

/// The first version of this call counts the reserved memory as used.
int nvmlDeviceGetMemoryInfo(void* device, Memory* out) {
  MemoryV2 info{.version = sizeof(MemoryV2) | (2u << 24), .total = 0, .reserved = 0, .free = 0, .used = 0};
  const int result = nvmlDeviceGetMemoryInfo_v2(device, &info);
  if (result == 0) *out = {info.total, info.free, info.used + info.reserved};
  return result;
}

int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryV2* out) {
  if (out->version != (sizeof(MemoryV2) | (2u << 24))) return kInvalidArgument;
  if (fake_cuda_is_integrated() != 0) return kNotSupported;  // there is no such memory
  const int ordinal = ordinal_of(device);
  out->used = fake_cuda_used(ordinal);
  out->reserved = kReserve;
  out->total = fake_cuda_total(ordinal) + kReserve;
  out->free = out->total - kReserve - out->used;
  dawdle();
  return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* out) {
  const int ordinal = ordinal_of(device);
  if (const char* told = getenv("FAKE_NVML_PROCESSES"); told != nullptr)
    return processes_in(told, ordinal, count, out);
  const uint64_t others = fake_cuda_used_by_others(ordinal);
  if (*count < 2) return kInsufficientSize;
  out[0] = {static_cast<unsigned>(getpid()), fake_cuda_used(ordinal) - others, 0, 0};
  out[1] = {1, others, 0, 0};
  *count = others > 0 ? 2 : 1;
  dawdle();
  return 0;
}
