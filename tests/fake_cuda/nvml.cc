// The part of NVML that tells of memory, on top of the simulated driver: libnvidia-ml.so.1 in this
// folder of the build. FAKE_NVML=off: NVML is there and does not work. FAKE_NVML_PROCESSES names a
// file with a line "DEVICE PID BYTES" for each process that uses a device, since a simulated driver
// knows only its own process, and with FAKE_CUDA_SHARED=FILE that of the process whose file it is.
// Once NVML has told of such a process, a file of that name and ".told" exists.
//
// FAKE_CUDA_MOVES=BYTES: before and after each answer others take and give back BYTES and more, and
// one more process begins or ends. FAKE_NVML_LIES: "host_pids" (this process has a number that it
// does not know), "not_available" (no bytes), "missing" (this process is not listed), "no_list",
// "swapped" (pid and bytes have changed places), "dead" (a process that has ended is still listed),
// "stranger" (in place of this process another one is listed, which has begun at the same time),
// "sibling" (as host_pids, and another process begins with this one), "wide" (entries of 32 bytes),
// "too_many" (more processes than any buffer has room for), "ill" (so is another device: none is
// found by UUID), "instance" (a device's place on the bus leads to the whole card, which is
// locked).
#include <sys/prctl.h>
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
extern "C" void fake_cuda_set_others(int device, unsigned long long bytes);
extern "C" int fake_cuda_process(int device);
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

/// In gpupeak's card server it knows nothing of the driver in another process, unless that is
/// shared.
bool is_off() {
  const char* value = getenv("FAKE_NVML");
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  return (value != nullptr && strcmp(value, "off") == 0) ||
         (strcmp(name, "gpupeak-cards") == 0 && getenv("FAKE_CUDA_SHARED") == nullptr);
}

/// Others take and give back memory between all answers.
void move_others(int ordinal) {
  static const char* const most = getenv("FAKE_CUDA_MOVES");
  static unsigned turn = 0;
  if (most == nullptr) return;
  const uint64_t step = strtoull(most, nullptr, 10);
  fake_cuda_set_others(ordinal, step * (1 + ++turn * 7 % 5));
}

/// Takes up to FAKE_NVML_DELAY_US microseconds: in this time other threads go on.
void dawdle() {
  static const char* const longest = getenv("FAKE_NVML_DELAY_US");
  if (longest == nullptr) return;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  usleep(static_cast<useconds_t>(now.tv_nsec % (atol(longest) + 1)));
}

bool lies(const char* how) {
  const char* value = getenv("FAKE_NVML_LIES");
  return value != nullptr && strcmp(value, how) == 0;
}

/// Where a device's place on the bus leads if the device is an instance of it.
constexpr int kWholeCard = 100;

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
NVML_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** out);
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
  if (lies("ill")) return kNotFound;
  if (strncmp(uuid, "GPU-", 4) != 0 || length < 2) return kInvalidArgument;
  const auto ordinal = strtol(uuid + length - 2, nullptr, 16);
  if (ordinal >= fake_cuda_device_count()) return kNotFound;
  *out = reinterpret_cast<void*>(static_cast<intptr_t>(ordinal + 1));
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** out) {
  const long ordinal = strtol(id + strcspn(id, ":") + 1, nullptr, 16) - 0x10;
  if (ordinal < 0 || ordinal >= fake_cuda_device_count()) return kNotFound;
  *out = reinterpret_cast<void*>(ordinal + 1 + (lies("instance") ? kWholeCard : 0));
  return 0;
}

/// The first version of this call counts the reserved memory as used.
int nvmlDeviceGetMemoryInfo(void* device, Memory* out) {
  MemoryV2 info{
      .version = sizeof(MemoryV2) | (2u << 24), .total = 0, .reserved = 0, .free = 0, .used = 0};
  const int result = nvmlDeviceGetMemoryInfo_v2(device, &info);
  if (result == 0) *out = {info.total, info.free, info.used + info.reserved};
  return result;
}

int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryV2* out) {
  if (out->version != (sizeof(MemoryV2) | (2u << 24))) return kInvalidArgument;
  if (fake_cuda_is_integrated() != 0) return kNotSupported;  // there is no such memory
  const int ordinal = ordinal_of(device);
  if (ordinal >= kWholeCard) return kNotFound;
  out->used = fake_cuda_used(ordinal);
  out->reserved = kReserve;
  out->total = fake_cuda_total(ordinal) + kReserve;
  out->free = out->total - kReserve - out->used;
  dawdle();
  move_others(ordinal);
  return 0;
}

namespace {

int list_of(void* device, unsigned* count, ProcessInfo* out) {
  const int ordinal = ordinal_of(device);
  if (const char* told = getenv("FAKE_NVML_PROCESSES"); told != nullptr)
    return processes_in(told, ordinal, count, out);
  move_others(ordinal);
  const uint64_t others = fake_cuda_used_by_others(ordinal);
  const uint64_t own = fake_cuda_used(ordinal) - others;
  if (*count < 4) return kInsufficientSize;
  unsigned n = 0;
  if (lies("too_many")) {
    *count *= 2;
    return kInsufficientSize;
  }
  const bool is_stranger = lies("stranger"), is_sibling = lies("sibling");
  const int process = fake_cuda_process(ordinal);
  const unsigned pid = static_cast<unsigned>(process != 0 ? process : getpid()) +
                       (lies("host_pids") || is_stranger || is_sibling ? 4'000'000u : 0u);
  // A process without a context is not listed. A fleeting one is in the first lists, then in
  // each third alone.
  static unsigned asked = 0;
  ++asked;
  const bool is_away = lies("missing") || (lies("fleeting") && asked > 8 && asked % 3 != 0);
  if (own > 0 && !is_away) out[n++] = {pid, is_stranger ? 64 << 20 : own, 0, 0};
  const uint64_t first = is_sibling && own == 0 ? others : others / 2;
  if (others > 0) out[n++] = {1, first, 0, 0};
  // The second of the others is another one each time.
  static unsigned turn = 0;
  const unsigned second = 5'000'000 + (getenv("FAKE_CUDA_MOVES") != nullptr ? turn++ % 7 : 0);
  if (others > first) out[n++] = {second, others - first, 0, 0};
  if (lies("dead")) out[n++] = {4'999'999, 0, 0, 0};
  for (unsigned i = 0; i < n; ++i) {
    if (lies("not_available")) out[i].used = UINT64_MAX;
    if (lies("swapped"))
      out[i] = {static_cast<unsigned>(out[i].used >> 20), uint64_t{out[i].pid} << 32, 0, 0};
  }
  if (lies("wide")) {
    auto* const bytes = reinterpret_cast<unsigned char*>(out);
    for (unsigned i = n; i-- > 1;) {
      memmove(bytes + 32 * i, &out[i], sizeof *out);
      memset(bytes + 32 * i - 8, 0, 8);
    }
  }
  *count = n;
  dawdle();
  move_others(ordinal);
  return 0;
}

}  // namespace

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* out) {
  if (lies("no_list")) return kNotSupported;
  return list_of(device, count, out);
}
