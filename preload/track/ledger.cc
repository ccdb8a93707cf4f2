#include "track/ledger.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/clock.h"
#include "base/environment.h"
#include "base/hash_tables.h"
#include "base/process_state.h"
#include "base/text.h"
#include "log/log.h"
#include "track/driver.h"
#include "track/limit.h"
#include "track/nvml.h"

extern "C" int __cxa_atexit(void (*)(void*), void*, void*);
extern "C" void* __dso_handle;

namespace gpupeak::preload {
namespace {

constexpr int kDevices = static_cast<int>(GPUPEAK_LOG_MAX_DEVICES);
constexpr uint64_t kNsPerSecond = 1'000'000'000;
/// There may be thousands of phases a second, so devices are read at their borders this often at
/// most.
constexpr uint64_t kBorderNs = 1'000'000;

constexpr uint64_t kNever = ~uint64_t{0};

struct Ledger {
  struct Device {
    std::atomic<int> open{0};           ///< brackets that are open
    std::atomic<uint32_t> opened{0};    ///< brackets opened since the start
    std::atomic<uint8_t> open_cause{};  ///< cause of the bracket that was opened last
    std::atomic<uint32_t> overlaps{0};  ///< brackets opened inside another since the last reading
    std::atomic<uint64_t> last_used{kNever};         ///< `used` of the last reading
    std::atomic<uint64_t> last_quiet_since{kNever};  ///< `quiet_since` of the last reading
    std::atomic<bool> asked_nvml{false};
    void* nvml = nullptr;
    std::atomic<bool> in_use{false};
    std::atomic<uint32_t> largest_local_bytes{0};  ///< a thread, of the functions launched so far
  } devices[kDevices];
  SeenSet used, graphs;
  std::atomic<uint64_t> last_sample_ns{0};
  std::atomic<bool> exit_is_hooked{false};
  std::atomic<CUcontext> only_context{nullptr};  ///< the first context in which launches were seen
};
constinit Ledger g_ledger;

constinit DriverFunction<CUresult (*)(const char**, CUfunction)> g_function_name("cuFuncGetName");
constinit DriverFunction<CUresult (*)(const char**, void*)> g_kernel_name("cuKernelGetName");
constinit DriverFunction<CUresult (*)(int*, CUfunction_attribute, CUfunction)> g_function_attribute(
    "cuFuncGetAttribute");

constinit DriverFunction<CUresult (*)(int*, CUfunction_attribute, void*, CUdevice)>
    g_kernel_attribute("cuKernelGetAttribute");

bool is_on() {
  return environment().ledger;
}

Ledger::Device* device_ledger(int device) {
  return is_on() && device >= 0 && device < kDevices ? &g_ledger.devices[device] : nullptr;
}

void* nvml_of(Ledger::Device& ledger, int device) {
  if (!ledger.asked_nvml.load(std::memory_order_acquire)) {
    char uuid[16];
    if (load_nvml() && device_uuid(device, uuid)) ledger.nvml = nvml_device(uuid);
    ledger.asked_nvml.store(true, std::memory_order_release);
  }
  return ledger.nvml;
}

/// Asks how much is in use now; false if there is no way to ask about this device.
bool read(int device, DriverReading& reading) {
  reading.quiet_since = DeviceCall::quiet_since();
  reading.earlier_readings = readings_logged(device);
  Ledger::Device& ledger = g_ledger.devices[device];
  void* const nvml = nvml_of(ledger, device);
  const auto ask = [&] {
    NvmlMemory memory;
    if (nvml != nullptr && nvml_memory(nvml, memory)) {
      reading.source = GPUPEAK_READING_NVML;
      reading.used = memory.used;
      reading.reserved_plus_1 = memory.reserved + 1;
      return true;
    }
    uint64_t free_bytes = 0, total = 0;
    if (current_device() != device || !real_memory_info(free_bytes, total)) return false;
    reading.source = GPUPEAK_READING_CUDA;
    reading.used = total - free_bytes;
    return true;
  };
  uint64_t ballast = 0;
  if (!with_steady_ballast(device, ask, ballast)) return false;
  reading.used -= ballast;
  return true;
}

void log(DriverReading& reading, Ledger::Device& ledger) {
  reading.overlaps = ledger.overlaps.exchange(0, std::memory_order_relaxed);
  ledger.last_used.store(reading.used, std::memory_order_relaxed);
  ledger.last_quiet_since.store(reading.quiet_since, std::memory_order_relaxed);
  log_driver_reading(reading);
}

/// Whether the driver has in use what it had at the last reading, and no call allocated or freed
/// since. Equal bytes alone do not say so: one thread may take what another has just freed.
bool is_as_before(const Ledger::Device& ledger, const DriverReading& reading) {
  return reading.used == ledger.last_used.load(std::memory_order_relaxed) &&
         reading.quiet_since != kNever &&
         reading.quiet_since == ledger.last_quiet_since.load(std::memory_order_relaxed);
}

/// The cause for a reading that ends no bracket: changes since the last reading belong to an open
/// bracket.
gpupeak_ledger_cause cause_of_reading(const Ledger::Device& ledger) {
  if (ledger.open.load(std::memory_order_acquire) == 0) return GPUPEAK_LEDGER_NONE;
  return static_cast<gpupeak_ledger_cause>(ledger.open_cause.load(std::memory_order_relaxed));
}

/// Adds what each process holds. Not for every reading, since it takes four times as long.
void add_processes(const Ledger::Device& ledger, DriverReading& reading) {
  NvmlProcesses processes;
  uint64_t ballast = 0;
  const auto ask = [&] { return ledger.nvml != nullptr && nvml_processes(ledger.nvml, processes); };
  if (!with_steady_ballast(reading.device, ask, ballast)) return;
  reading.own_plus_1 = processes.own - std::min(processes.own, ballast) + 1;
  reading.others_plus_1 = processes.others + 1;
}

void read_with_processes(int device) {
  Ledger::Device& ledger = g_ledger.devices[device];
  DriverReading reading{.device = device};
  if (!read(device, reading)) return;
  reading.cause = cause_of_reading(ledger);
  add_processes(ledger, reading);
  log(reading, ledger);
}

void read_devices_in_use() {
  for (int device = 0; device < kDevices; ++device) {
    if (g_ledger.devices[device].in_use.load(std::memory_order_relaxed))
      read_with_processes(device);
  }
}

void sample(uint64_t interval_ns) {
  if (interval_ns == 0) return;
  const uint64_t now = monotonic_ns();
  uint64_t last = g_ledger.last_sample_ns.load(std::memory_order_relaxed);
  if (now - last < interval_ns) return;
  HookScope scope;
  // One thread takes the reading. Signals are not held, since this may wait for the driver's locks.
  if (scope.entered() && g_ledger.last_sample_ns.compare_exchange_strong(last, now))
    read_devices_in_use();
}

void read_at_exit(void*) {
  if (recording()) sample(1);
}

/// Our exit handler is registered after the driver's, so that it runs first, while contexts are
/// still there.
void hook_exit() {
  if (g_ledger.exit_is_hooked.exchange(true)) return;
  const LibraryScope inside;  // it may allocate
  __cxa_atexit(&read_at_exit, nullptr, &__dso_handle);
}

/// Local memory in bytes a thread. `function` may be a kernel's handle.
uint32_t local_bytes_of(CUfunction function, int device) {
  constexpr auto kLocalBytes = CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
  int bytes = 0;
  if (g_function_attribute(&bytes, kLocalBytes, function) == CUDA_SUCCESS ||
      g_kernel_attribute(&bytes, kLocalBytes, function, device) == CUDA_SUCCESS)
    return static_cast<uint32_t>(bytes);
  return 0;
}

/// Whether the function needs more local memory a thread than any before. If so, the driver's
/// memory for it has grown.
bool needs_more_local_memory(Ledger::Device& ledger, CUfunction function, int device) {
  const uint32_t local = local_bytes_of(function, device);
  uint32_t largest = ledger.largest_local_bytes.load(std::memory_order_relaxed);
  while (local > largest) {
    if (ledger.largest_local_bytes.compare_exchange_weak(largest, local)) return true;
  }
  return false;
}

/// Called for a handle that has not been seen: finds out whether there are several contexts.
void note_context() {
  const CUcontext current = current_context();
  CUcontext only = nullptr;
  if (g_ledger.only_context.compare_exchange_strong(only, current) || only == current) return;
  g_launches.several_contexts = true;
}

bool is_first(SeenSet& seen, const void* handle) {
  if (handle == nullptr || (!is_on() && !has_limits()) || seen.contains(g_launches.key(handle)))
    return false;
  note_context();
  return seen.add(g_launches.key(handle));
}

}  // namespace

void LedgerBracket::open(const ApiCall& call, gpupeak_ledger_cause cause, int device) {
  Ledger::Device* const ledger = device_ledger(device);
  if (ledger == nullptr) return;
  HookScope scope;
  if (!scope.entered()) return;
  call_ = &call;
  cause_ = cause;
  device_ = device;
  if (!ledger->in_use.exchange(true)) hook_exit();
  ledger->open_cause.store(static_cast<uint8_t>(cause), std::memory_order_relaxed);
  const uint32_t opened = ledger->opened.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (ledger->open.fetch_add(1, std::memory_order_acq_rel) > 0) {
    ledger->overlaps.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  DriverReading reading{.device = device};
  if (!read(device, reading)) return;
  // If another thread opened a bracket meanwhile, its call may have changed what was read.
  if (ledger->opened.load(std::memory_order_acquire) != opened)
    reading.cause = cause_of_reading(*ledger);
  log(reading, *ledger);
}

void LedgerBracket::close() {
  Ledger::Device& ledger = g_ledger.devices[device_];
  HookScope scope;
  if (scope.entered()) {
    DriverReading reading{.device = device_};
    // Bytes of arrays are estimates: what the driver took may be less, too.
    const bool is_estimate = cause_ == GPUPEAK_LEDGER_ARRAYS;
    if (read(device_, reading) && (is_estimate || !is_as_before(ledger, reading))) {
      reading.cause = cause_;
      // A context takes a tenth of a second and more; other processes take memory meanwhile, too.
      if (cause_ == GPUPEAK_LEDGER_CONTEXT) add_processes(ledger, reading);
      std::string_view name;
      if (function_ != nullptr) {
        name = function_name(function_);
        if (needs_more_local_memory(ledger, function_, device_))
          reading.cause = GPUPEAK_LEDGER_LOCAL_MEMORY;
      } else if (file_ != nullptr) {
        name = file_name(file_);
      }
      reading.name = name.empty() ? 0 : intern_string(name);
      reading.call = call_;
      log(reading, ledger);
    }
  }
  call_ = nullptr;
  ledger.open.fetch_sub(1, std::memory_order_acq_rel);
}

std::string_view function_name(CUfunction function) {
  const char* name = nullptr;
  if (g_function_name(&name, function) == CUDA_SUCCESS && name != nullptr) return name;
  if (g_kernel_name(&name, function) == CUDA_SUCCESS && name != nullptr) return name;
  return {};
}

constinit Launches g_launches;

uint64_t Launches::key_in_current_context(uint64_t handle) {
  // Both are pointers into the heap, near each other: a simpler mix would give equal keys.
  return handle * 0x9e3779b97f4a7c15u ^
         reinterpret_cast<uint64_t>(current_context()) * 0xc2b2ae3d27d4eb4fu;
}

bool is_first_launch(const void* launched) {
  return is_first(g_launches.seen, launched);
}

bool is_first_use(const void* function) {
  return is_first(g_ledger.used, function);
}

bool is_first_graph_launch(const void* graph) {
  return is_first(g_ledger.graphs, graph);
}

void forget_graph_launches() {
  HookScope scope;
  if (scope.entered()) g_ledger.graphs.clear();
}

void forget_launches() {
  HookScope scope;
  if (!scope.entered()) return;
  g_launches.seen.clear();
  g_ledger.used.clear();
}

void read_unread_peaks_slowly() {
  HookScope scope;
  if (!scope.entered()) return;
  const uint32_t unread = g_unread_peaks.load(std::memory_order_relaxed);
  for (int device = 0; device < kDevices; ++device) {
    if ((unread >> device & 1) == 0) continue;
    Ledger::Device* const ledger = device_ledger(device);
    DriverReading reading{.device = device};
    if (ledger != nullptr && read(device, reading)) {
      reading.cause = cause_of_reading(*ledger);
      log(reading, *ledger);
    } else {
      peak_is_not_readable(device);
    }
  }
}

void sample_driver_memory() {
  const uint32_t hz = environment().ledger_hz;
  if (is_on() && hz > 0) sample(kNsPerSecond / hz);
}

void sample_driver_memory_at_border() {
  if (is_on() && environment().ledger_hz > 0) sample(kBorderNs);
}

void read_devices_at_attach() {
  if (!is_on()) return;
  HookScope scope;
  if (!scope.entered()) return;
  const int count = std::min(device_count(), kDevices);
  for (int device = 0; device < count; ++device) {
    if (primary_context_is_active(device)) g_ledger.devices[device].in_use = true;
  }
  read_devices_in_use();
}

void read_devices_at_detach() {
  HookScope scope;
  if (is_on() && scope.entered()) read_devices_in_use();
}

void forget_ledger() {
  for (Ledger::Device& device : g_ledger.devices) {
    device.open = 0;
    device.last_used = device.last_quiet_since = kNever;
    device.overlaps = 0;
    device.asked_nvml = false;
    device.nvml = nullptr;
    device.in_use = false;
    device.largest_local_bytes = 0;
  }
  g_launches.seen.clear();
  g_launches.several_contexts = false;
  g_ledger.used.clear();
  g_ledger.graphs.clear();
  g_ledger.only_context = nullptr;
  forget_nvml();
}

}  // namespace gpupeak::preload
