#include "track/ledger.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/environment.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "log/log.h"
#include "thread/emit.h"
#include "track/card_server.h"
#include "track/device_book.h"
#include "track/driver.h"
#include "track/limit.h"

extern "C" int __cxa_atexit(void (*)(void*), void*, void*);
extern "C" void* __dso_handle;

namespace gpupeak::preload {
namespace {

/// There may be thousands of phases a second, so devices are read at their borders this often at
/// most.
constexpr uint64_t kBorderNs = 1'000'000;

constexpr uint64_t kNever = ~uint64_t{0};

/// NVML's lists that neither a context nor the end needs may take these shares of the processor's
/// time in bracketed calls and of all time, and so much at first: little beside making a context.
constexpr uint64_t kListShare = 64;
constexpr uint64_t kListShareOfTime = 1024;
constexpr uint64_t kFirstListNs = 10'000'000;
constexpr uint32_t kNames = 64;  ///< of other processes

/// What is known of this process and this log: forget_ledger() begins it anew.
struct LedgerOfLog {
  struct Device {
    std::atomic<int> open{0};           ///< brackets that are open
    std::atomic<uint32_t> opened{0};    ///< brackets opened since the start
    std::atomic<uint8_t> open_cause{};  ///< cause of the bracket that was opened last
    std::atomic<uint32_t> overlaps{0};  ///< brackets opened inside another since the last reading
    std::atomic<uint64_t> last_used{kNever};         ///< `used` of the last reading
    std::atomic<uint64_t> last_quiet_since{kNever};  ///< `quiet_since` of the last reading
    std::atomic<uint64_t> last_own_plus_1{0}, last_others_plus_1{0};  ///< of the last reading
    std::atomic<bool> in_use{false};
    std::atomic<uint32_t> largest_local_bytes{0};  ///< a thread, of the functions launched so far
  } devices[kDevices];
  /// Processor time in bracketed calls and for the list. On a loaded machine either may wait long.
  std::atomic<uint64_t> call_ns{0}, list_ns{0};
  std::atomic<uint64_t> first_asked_ns{0};  ///< 0: nobody has asked for the list
  std::atomic<uint32_t> own_pid{0};         ///< of this process in the list; 0: not known
  std::atomic<bool> pid_is_ours{false};     ///< the list counts as our /proc does
  std::atomic<bool> listing{false};         ///< a thread has the list, and what is below
  uint32_t names_read = 0;                  ///< of more than kNames the last ones are kept
  int context_device = -1;  ///< of the first context; -1: none, or there was no list before it
  bool context_made = false;
  bool own_has_bytes = false;  ///< the list has told this process's bytes: it is not N/A
  uint64_t handed_out = 0;     ///< by this process, when the candidates had what is noted of them
  std::atomic<CUcontext> only_context{nullptr};  ///< the first context in which launches were seen
};
struct Ledger : LedgerOfLog {
  SeenSet used, graphs;
  std::atomic<uint64_t> last_sample_ns{0};
  std::atomic<bool> exit_is_hooked{false};
  NvmlProcesses all;
  struct {
    uint32_t pid, name;
  } names[kNames] = {};
  NvmlProcesses before;      ///< who was in the list before the first context
  NvmlProcesses candidates;  ///< who came with it, and may be this process
};
constinit Ledger g_ledger;

constinit DriverFunction<CUresult (*)(const char**, CUfunction)> g_function_name("cuFuncGetName");
constinit DriverFunction<CUresult (*)(const char**, void*)> g_kernel_name("cuKernelGetName");
constinit DriverFunction<CUresult (*)(int*, CUfunction_attribute, CUfunction)> g_function_attribute(
    "cuFuncGetAttribute");
constinit DriverFunction<CUresult (*)(int*, CUfunction_attribute, void*, CUdevice)>
    g_kernel_attribute("cuKernelGetAttribute");

/// How much of a device is in use, as the driver says; fields as in log_format.h.
struct DriverReading {
  int device = -1;
  gpupeak_reading_source source = GPUPEAK_READING_CUDA;
  gpupeak_ledger_cause cause = GPUPEAK_LEDGER_NONE;
  uint64_t used = 0;
  uint64_t reserved_plus_1 = 0, own_plus_1 = 0, others_plus_1 = 0;
  struct Process {
    uint32_t pid, name;
    uint64_t bytes;
  };
  static constexpr uint32_t kMostProcesses = 16;
  uint32_t processes = 0;  ///< how many of `other`: the largest ones
  Process other[kMostProcesses] = {};
  uint32_t overlaps = 0;
  uint64_t quiet_since = 0;       ///< DeviceCall::quiet_since() before the driver was asked
  uint32_t earlier_readings = 0;  ///< readings logged before the driver was asked
  uint32_t name = 0;              ///< string id in the log
  const ApiCall* call = nullptr;  ///< the call that changed it; nullptr: none
};

/// How many readings of a device have been logged.
constinit std::atomic<uint32_t> g_logged[kDevices];

bool is_on() {
  return environment().ledger;
}

Ledger::Device* device_ledger(int device) {
  return is_on() && has_counters(device) ? &g_ledger.devices[device] : nullptr;
}

/// Whether the driver has in use what it had at the last reading, and no call allocated or freed
/// since. Equal bytes alone do not say so: one thread may take what another has just freed.
bool is_as_before(const Ledger::Device& ledger, const DriverReading& reading) {
  return reading.used == ledger.last_used.load(std::memory_order_relaxed) &&
         reading.quiet_since != kNever &&
         reading.quiet_since == ledger.last_quiet_since.load(std::memory_order_relaxed);
}

/// When a reading asks for the list of processes.
enum class List : uint8_t {
  kIfAffordable,
  kAlways,
  kBeforeContext,  ///< as a process opens its first context
  kAfterContext
};

bool may_list() {
  const uint64_t now = monotonic_ns();
  uint64_t first = 0;
  if (g_ledger.first_asked_ns.compare_exchange_strong(first, now)) first = now;
  return g_ledger.list_ns <=
         kFirstListNs + g_ledger.call_ns / kListShare + (now - first) / kListShareOfTime;
}

/// Leaves those of the candidates that can be this process: still listed, and grown by what was
/// handed out since, less what came back, as far as no call was under way.
void narrow_candidates(const NvmlProcesses& now, uint64_t handed_out) {
  constexpr uint64_t kSlack = 16 << 20;  // small blocks may fill pages that the process has
  const uint64_t least = std::min(handed_out, g_ledger.handed_out);
  const uint64_t grown = handed_out - least, shrunk = g_ledger.handed_out - least;
  NvmlProcesses& candidates = g_ledger.candidates;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < candidates.count; ++i) {
    const NvmlProcess* const one = now.find(candidates.list[i].pid);
    if (one != nullptr && (one->bytes_plus_1 == 0 || one->bytes_plus_1 + kSlack + shrunk >=
                                                         candidates.list[i].bytes_plus_1 + grown))
      candidates.list[kept++] = *one;
  }
  candidates.count = kept;
  g_ledger.handed_out = handed_out;
}

/// Finds out under which number this process is in the list: one that /proc gives it and that came
/// with the first context. In a container the list mostly has the host's numbers, which /proc may
/// not show: then it is the one that came with the first context, has stayed, and grows with our
/// blocks. The collector does not believe an entry that does not.
void find_own(const NvmlProcesses& now, const DriverReading& reading, uint64_t handed_out,
              List use) {
  NvmlProcesses &before = g_ledger.before, &candidates = g_ledger.candidates;
  const int device = reading.device;
  if (use == List::kBeforeContext && g_ledger.context_device < 0) {
    g_ledger.context_device = device;
    before = now;
  }
  const bool is_of_context = g_ledger.context_device == device;
  // Behind the call, if there is no list then, another reading outside of calls does.
  const bool is_made = use == List::kAfterContext || g_ledger.devices[device].open == 0;
  if (is_of_context && is_made && !g_ledger.context_made) {
    g_ledger.context_made = true;
    for (uint32_t i = 0; i < now.count; ++i) {
      if (before.find(now.list[i].pid) == nullptr)
        candidates.list[candidates.count++] = now.list[i];
    }
    g_ledger.handed_out = handed_out;
  } else if (is_of_context && g_ledger.context_made && reading.quiet_since != kNever &&
             reading.quiet_since == DeviceCall::quiet_since()) {
    narrow_candidates(now, handed_out);
  }
  if (g_ledger.context_device >= 0 && !g_ledger.context_made) return;
  char text[2048];
  text[read_file("/proc/self/status", text, sizeof text - 1)] = 0;
  const char* const line = strstr(text, "\nNSpid:");
  const char* at = line == nullptr ? "" : line + 7;
  // Kernels before 4.1 do not have that line.
  uint32_t pid = static_cast<uint32_t>(line == nullptr ? sys::getpid() : next_number(at));
  for (bool is_outermost = true; pid != 0; is_outermost = false) {
    if (now.find(pid) != nullptr && (candidates.count == 0 || candidates.find(pid) != nullptr)) {
      g_ledger.own_pid = pid;
      g_ledger.pid_is_ours = is_outermost;
      return;
    }
    pid = static_cast<uint32_t>(next_number(at));
  }
  if (candidates.count == 1) g_ledger.own_pid = candidates.list[0].pid;
}

/// The name of another process, where /proc shows it; 0: it does not.
uint32_t name_of_process(uint32_t pid) {
  if (!g_ledger.pid_is_ours) return 0;
  for (uint32_t i = 0; i < std::min(g_ledger.names_read, kNames); ++i) {
    if (g_ledger.names[i].pid == pid) return g_ledger.names[i].name;
  }
  const Text<48> path("/proc/", pid, "/comm");
  char name[32];
  size_t bytes = read_file(path.c_str(), name, sizeof name);
  if (bytes > 0 && name[bytes - 1] == '\n') --bytes;
  const uint32_t id = bytes == 0 ? 0 : intern_string({name, bytes});
  g_ledger.names[g_ledger.names_read++ % kNames] = {pid, id};
  return id;
}

/// Adds what each process holds. The list takes four times as long as the card's figure.
void add_processes(DriverReading& reading, List use) {
  if (g_ledger.listing.exchange(true)) return;
  NvmlProcesses& all = g_ledger.all;
  const uint64_t begin = thread_cpu_ns();
  uint64_t ballast = 0;
  const gpupeak_device_counters& ours = counters().device[reading.device];
  const uint64_t live = ours.total.live;
  const uint64_t handed_out = ours.kind[GPUPEAK_KIND_LINEAR - GPUPEAK_FIRST_DEVICE_KIND].live +
                              ours.kind[GPUPEAK_KIND_VMM - GPUPEAK_FIRST_DEVICE_KIND].live;
  const auto ask = [&] {
    return processes_of_card(reading.device, real_device_total(reading.device),
                             use != List::kIfAffordable, all);
  };
  // A process that begins or ends may spoil a list, or this process is not in it for a moment.
  bool has_list = false;
  for (int tries = 3; tries > 0; --tries) {
    has_list = with_steady_ballast(reading.device, ask, ballast);
    const bool is_in_it = !g_ledger.own_has_bytes || all.find(g_ledger.own_pid) != nullptr;
    if (has_list ? is_in_it : use == List::kIfAffordable) break;
    sys::sched_yield();
  }
  if (has_list) {
    if (g_ledger.own_pid == 0) find_own(all, reading, handed_out, use);
    const uint32_t own = g_ledger.own_pid;
    uint64_t others = all.rest;
    bool others_known = true, listed = false;
    for (uint32_t i = 0; i < all.count; ++i) {
      const NvmlProcess& it = all.list[i];
      if (it.pid == own) {
        listed = true;
        if (it.bytes_plus_1 == 0) continue;
        g_ledger.own_has_bytes = true;
        reading.own_plus_1 = it.bytes_plus_1 - std::min(it.bytes_plus_1 - 1, ballast);
        continue;
      }
      others_known &= it.bytes_plus_1 != 0;
      if (it.bytes_plus_1 <= 1) continue;
      others += it.bytes_plus_1 - 1;
      // The largest come first.
      uint32_t place = std::min(reading.processes, DriverReading::kMostProcesses - 1);
      if (reading.processes == DriverReading::kMostProcesses &&
          reading.other[place].bytes >= it.bytes_plus_1 - 1)
        continue;
      for (; place > 0 && reading.other[place - 1].bytes < it.bytes_plus_1 - 1; --place)
        reading.other[place] = reading.other[place - 1];
      reading.other[place] = {it.pid, name_of_process(it.pid), it.bytes_plus_1 - 1};
      reading.processes = std::min(reading.processes + 1, DriverReading::kMostProcesses);
    }
    // Without a context the process is not listed. One with memory must be, or the list lies.
    if (g_ledger.own_has_bytes && !listed && live == 0) reading.own_plus_1 = 1;
    const bool is_before = g_ledger.context_device >= 0 && !g_ledger.context_made;
    if (others_known && ((own != 0 && reading.own_plus_1 != 0) || is_before))
      reading.others_plus_1 = others + 1;
  }
  if (use == List::kIfAffordable) g_ledger.list_ns += thread_cpu_ns() - begin;
  g_ledger.listing = false;
}

/// Asks how much is in use now; false if there is no way to ask about this device.
bool read(int device, DriverReading& reading, List use = List::kIfAffordable) {
  reading.quiet_since = DeviceCall::quiet_since();
  reading.earlier_readings = g_logged[device].load(std::memory_order_acquire);
  Ledger::Device& ledger = g_ledger.devices[device];
  const auto ask = [&] {
    NvmlMemory memory;
    if (memory_of_card(device, memory)) {
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
  if (is_as_before(ledger, reading)) {
    reading.own_plus_1 = ledger.last_own_plus_1.load(std::memory_order_relaxed);
    reading.others_plus_1 = ledger.last_others_plus_1.load(std::memory_order_relaxed);
    if (reading.own_plus_1 != 0) return true;
  }
  // Where NVML does not tell the card's memory, that is the host's, too, which is no process's.
  if (reading.source == GPUPEAK_READING_NVML && (use != List::kIfAffordable || may_list()))
    add_processes(reading, use);
  return true;
}

void log(DriverReading& reading, Ledger::Device& ledger) {
  reading.overlaps = ledger.overlaps.exchange(0, std::memory_order_relaxed);
  ledger.last_used.store(reading.used, std::memory_order_relaxed);
  ledger.last_quiet_since.store(reading.quiet_since, std::memory_order_relaxed);
  ledger.last_own_plus_1.store(reading.own_plus_1, std::memory_order_relaxed);
  ledger.last_others_plus_1.store(reading.others_plus_1, std::memory_order_relaxed);
  introduce_device(reading.device);
  const uint32_t api = reading.call != nullptr ? api_of(*reading.call) : 0;
  const uint32_t stack = reading.call != nullptr ? capture_stack(reading.call->caller) : 0;
  const BookGuard guard;
  if (!guard) return;
  uint64_t& read_at = g_read_at[reading.device];
  const uint64_t live = counters().device[reading.device].total.live;
  if (live > read_at) read_at = live;
  g_unread_peaks &= ~(1u << reading.device);
  // If another thread's reading was logged in between, that one may be the newer.
  const bool overtaken = g_logged[reading.device]++ != reading.earlier_readings;
  const bool uncertain = overtaken || DeviceCall::begun() != reading.quiet_since;
  Record record(GPUPEAK_REC_DRIVER_READING, logged_device(reading.device), reading.used,
                reading.source, reading.cause, reading.reserved_plus_1, reading.own_plus_1,
                reading.others_plus_1, reading.overlaps, uncertain, api, reading.name, stack,
                reading.processes);
  for (uint32_t i = 0; i < reading.processes; ++i)
    record.u(reading.other[i].pid).u(reading.other[i].bytes).u(reading.other[i].name);
  emit(record);
}

/// The driver cannot be asked about this device now: its peak stays without a reading.
void peak_is_not_readable(int device) {
  const BookGuard guard;
  if (!guard) return;
  g_read_at[device] = counters().device[device].total.peak;
  g_unread_peaks &= ~(1u << device);
}

/// The cause for a reading that ends no bracket: changes since the last reading belong to an open
/// bracket.
gpupeak_ledger_cause cause_of_reading(const Ledger::Device& ledger) {
  if (ledger.open.load(std::memory_order_acquire) == 0) return GPUPEAK_LEDGER_NONE;
  return static_cast<gpupeak_ledger_cause>(ledger.open_cause.load(std::memory_order_relaxed));
}

void read_devices_in_use(List use) {
  for (int device = 0; device < kDevices; ++device) {
    Ledger::Device& ledger = g_ledger.devices[device];
    DriverReading reading{.device = device};
    if (!ledger.in_use.load(std::memory_order_relaxed) || !read(device, reading, use)) continue;
    reading.cause = cause_of_reading(ledger);
    log(reading, ledger);
  }
}

void sample(uint64_t interval_ns, List use = List::kIfAffordable) {
  if (interval_ns == 0) return;
  const uint64_t now = monotonic_ns();
  uint64_t last = g_ledger.last_sample_ns.load(std::memory_order_relaxed);
  if (now - last < interval_ns) return;
  HookScope scope;
  // One thread takes the reading. Signals are not held, since this may wait for the driver's locks.
  if (scope.entered() && g_ledger.last_sample_ns.compare_exchange_strong(last, now))
    read_devices_in_use(use);
}

void read_at_exit(void*) {
  if (recording()) sample(1, List::kAlways);
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
  const bool is_known = g_function_attribute(&bytes, kLocalBytes, function) == CUDA_SUCCESS ||
                        g_kernel_attribute(&bytes, kLocalBytes, function, device) == CUDA_SUCCESS;
  return is_known ? static_cast<uint32_t>(bytes) : 0;
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

constinit std::atomic<uint32_t> g_unread_peaks{0};
constinit uint64_t g_read_at[GPUPEAK_LOG_MAX_DEVICES];

void forget_readings() {
  for (uint64_t& read_at : g_read_at) read_at = 0;
  g_unread_peaks = 0;
  DeviceCall::forget();
}

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
  const bool is_context = cause == GPUPEAK_LEDGER_CONTEXT;
  const bool is_read =
      read(device, reading, is_context ? List::kBeforeContext : List::kIfAffordable);
  begun_ns_ = thread_cpu_ns();
  if (!is_read) return;
  // If another thread opened a bracket meanwhile, its call may have changed what was read.
  if (ledger->opened.load(std::memory_order_acquire) != opened)
    reading.cause = cause_of_reading(*ledger);
  log(reading, *ledger);
}

void LedgerBracket::close() {
  Ledger::Device& ledger = g_ledger.devices[device_];
  HookScope scope;
  if (scope.entered()) {
    if (begun_ns_ != 0) g_ledger.call_ns += thread_cpu_ns() - begun_ns_;
    DriverReading reading{.device = device_};
    // Bytes of arrays are estimates: what the driver took may be less, too.
    const bool is_estimate = cause_ == GPUPEAK_LEDGER_ARRAYS;
    const List use = cause_ == GPUPEAK_LEDGER_CONTEXT ? List::kAfterContext : List::kIfAffordable;
    if (read(device_, reading, use) && (is_estimate || !is_as_before(ledger, reading))) {
      reading.cause = cause_;
      std::string_view name;
      if (function_ != nullptr) {
        name = function_name(function_);
        // If it needs more than any before, the driver's memory for it has grown.
        if (raise_to(ledger.largest_local_bytes, local_bytes_of(function_, device_)))
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
  read_devices_in_use(List::kAlways);
}

void read_devices_at_detach() {
  HookScope scope;
  if (is_on() && scope.entered()) read_devices_in_use(List::kAlways);
}

void forget_ledger() {
  begin_anew<LedgerOfLog>(g_ledger);
  g_launches.seen.clear();
  g_launches.several_contexts = false;
  g_ledger.used.clear();
  g_ledger.graphs.clear();
  g_ledger.before.count = g_ledger.candidates.count = 0;
  forget_nvml();
}

}  // namespace gpupeak::preload
