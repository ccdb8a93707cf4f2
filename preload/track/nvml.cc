#include "track/nvml.h"

#include <algorithm>
#include <atomic>
#include <initializer_list>

#include "base/hook_scope.h"
#include "base/loader.h"
#include "base/memory.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "track/driver.h"

namespace gpupeak::preload {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";
constexpr uint64_t kNotAvailable = ~uint64_t{0};
constexpr unsigned kMaxProcesses = 256;
/// An entry begins with the pid and, eight bytes on, what it uses. The call's first version has no
/// more; later ones have the MIG instance behind that, and some drivers (535.43 to 535.86) eight
/// bytes more.
constexpr size_t kLongestEntry = 32;
struct ListCall {
  const char* name;
  size_t entry_bytes;
};
constexpr ListCall kListCalls[2][3] = {{{"nvmlDeviceGetComputeRunningProcesses_v3", 24},
                                        {"nvmlDeviceGetComputeRunningProcesses_v2", 24},
                                        {"nvmlDeviceGetComputeRunningProcesses", 16}},
                                       {{"nvmlDeviceGetGraphicsRunningProcesses_v3", 24},
                                        {"nvmlDeviceGetGraphicsRunningProcesses_v2", 24},
                                        {"nvmlDeviceGetGraphicsRunningProcesses", 16}}};

int (*g_init)();
int (*g_by_uuid)(const char*, void**);
int (*g_by_bus)(const char*, void**);
int (*g_uuid)(void*, char*, unsigned);
int (*g_memory)(void*, NvmlMemoryV2*);
struct List {
  int (*call)(void*, unsigned*, void*);
  size_t entry_bytes;
};
constinit List g_lists[2]{};  ///< of processes that compute, and of those that draw

enum class State : uint8_t { kUntried, kReady, kMissing };
constinit State g_state = State::kUntried;
constinit struct {
  std::atomic<bool> named{false}, asked{false};
  NvmlCard card;
  void* handle = nullptr;
} g_devices[GPUPEAK_LOG_MAX_DEVICES];

/// NVML clears 14 MB of its own variables as it begins (driver 580). The kernel makes their pages
/// faster in one call than at a page fault each.
void make_variables_of(const void* in_library) {
  with_object_around(in_library, [](const dl_phdr_info& object) {
    for_each_part(object, PT_LOAD, [](const ElfW(Phdr) & part, AddressRange memory) {
      const uintptr_t begin = page_end(memory.begin + part.p_filesz), end = page_end(memory.end);
      if ((part.p_flags & PF_W) != 0 && begin < end)
        sys::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
      return false;
    });
  });
}

State open() {
  const LibraryScope inside;
  void* const library = load_library(kLibrary);
  const bool complete = find_symbol(library, "nvmlInit_v2", g_init) &&
                        find_symbol(library, "nvmlDeviceGetHandleByUUID", g_by_uuid) &&
                        find_symbol(library, "nvmlDeviceGetMemoryInfo_v2", g_memory);
  if (!complete) return State::kMissing;
  make_variables_of(reinterpret_cast<const void*>(g_init));
  if (g_init() != kNvmlSuccess) return State::kMissing;
  find_symbol(library, "nvmlDeviceGetHandleByPciBusId_v2", g_by_bus);
  find_symbol(library, "nvmlDeviceGetUUID", g_uuid);
  for (int i = 0; i < 2; ++i) {
    for (const ListCall& version : kListCalls[i]) {
      g_lists[i].entry_bytes = version.entry_bytes;
      if (find_symbol(library, version.name, g_lists[i].call)) break;
    }
  }
  return State::kReady;
}

/// A process may be in the list once for each instance of a GPU (MIG), and in both lists with the
/// same bytes if it computes and draws. False if an entry cannot be.
bool add_entries(const unsigned char* entries, unsigned count, size_t entry_bytes, uint64_t most,
                 NvmlProcesses& processes) {
  const uint32_t earlier = processes.count;  // from the other list
  for (unsigned i = 0; i < count; ++i) {
    const unsigned char* const entry = entries + i * entry_bytes;
    const auto pid = value_at<uint32_t>(entry);
    const auto used = value_at<uint64_t>(entry + 8);
    if (pid == 0 || pid == ~0u || (used != kNotAvailable && used > most)) return false;
    const uint64_t plus_1 = used == kNotAvailable ? 0 : used + 1;
    if (auto* const known = const_cast<NvmlProcess*>(processes.find(pid)); known != nullptr) {
      if (known < processes.list + earlier)
        known->bytes_plus_1 = std::max(known->bytes_plus_1, plus_1);
      else if (known->bytes_plus_1 != 0)
        known->bytes_plus_1 = plus_1 == 0 ? 0 : known->bytes_plus_1 + used;
    } else if (processes.count < NvmlProcesses::kMost) {
      processes.list[processes.count++] = {.pid = pid, .bytes_plus_1 = plus_1};
    } else if (plus_1 != 0) {
      processes.rest += used;
    }
  }
  return true;
}

/// A UUID as NVML writes it. `bytes`: 16, as the CUDA driver gives them.
Text<64> uuid_text(const char* prefix, const char* bytes) {
  Text<64> text(prefix);
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.add("-");
    text.add_hex(static_cast<unsigned char>(bytes[i]), 2);
  }
  return text;
}

/// By its place on the bus NVML starts this device alone, by UUID also those before it. A MIG
/// instance has a UUID alone.
void* find_device(const NvmlCard& card) {
  char found[96];
  const LibraryScope inside;
  void* device = nullptr;
  const Text<64> whole = uuid_text("GPU-", card.uuid);
  if (g_by_bus != nullptr && g_uuid != nullptr && card.bus[0] != 0 &&
      g_by_bus(card.bus, &device) == kNvmlSuccess &&
      g_uuid(device, found, sizeof found) == kNvmlSuccess && whole.view() == found)
    return device;
  for (const auto& name : {whole, uuid_text("MIG-", card.uuid)}) {
    if (g_by_uuid(name.c_str(), &device) == kNvmlSuccess) return device;
  }
  return nullptr;
}

}  // namespace

bool open_nvml() {
  if (g_state == State::kUntried) g_state = open();
  return g_state == State::kReady;
}

bool nvml_was_tried() {
  return g_state != State::kUntried;
}

const NvmlCard* nvml_card(int device) {
  auto& known = g_devices[device];
  if (!known.named.load(std::memory_order_acquire)) {
    if (!device_uuid(device, known.card.uuid)) return nullptr;
    if (!device_bus_id(device, known.card.bus, sizeof known.card.bus)) known.card.bus[0] = 0;
    known.named.store(true, std::memory_order_release);
  }
  return &known.card;
}

void* nvml_device(int device, const NvmlCard& card) {
  auto& known = g_devices[device];
  if (!known.asked.load(std::memory_order_acquire) ||
      memcmp(&known.card, &card, sizeof card) != 0) {
    known.card = card;
    known.handle = open_nvml() ? find_device(card) : nullptr;
    known.asked.store(true, std::memory_order_release);
  }
  return known.handle;
}

void start_first_nvml_device() {
  int (*by_index)(unsigned, void**) = nullptr;
  void* device = nullptr;
  if (open_nvml() && find_symbol(load_library(kLibrary), "nvmlDeviceGetHandleByIndex_v2", by_index))
    by_index(0, &device);
}

bool nvml_memory(void* device, NvmlMemory& memory) {
  const LibraryScope inside;
  NvmlMemoryV2 info;
  if (device == nullptr || g_memory(device, &info) != kNvmlSuccess) return false;
  memory = {.used = info.used, .reserved = info.reserved};
  return true;
}

bool nvml_processes(void* device, uint64_t most, bool with_graphics, NvmlProcesses& processes) {
  static bool drawn = false;  // when the list for graphics was last read, it had entries
  const LibraryScope inside;
  alignas(8) static unsigned char entries[kMaxProcesses * kLongestEntry];  // for small stacks
  if (device == nullptr || g_lists[0].call == nullptr) return false;
  processes.count = 0;
  processes.rest = 0;
  for (const List& list : g_lists) {
    unsigned count = kMaxProcesses;
    const bool is_for_graphics = &list != g_lists;
    if (list.call == nullptr || (is_for_graphics && !with_graphics && !drawn)) continue;
    if (list.call(device, &count, entries) != kNvmlSuccess) {
      if (!is_for_graphics) return false;
      continue;
    }
    if (is_for_graphics) drawn = count > 0;
    count = std::min(count, kMaxProcesses);
    const uint32_t earlier = processes.count;
    if (add_entries(entries, count, list.entry_bytes, most, processes)) continue;
    processes.count = earlier;
    if (list.entry_bytes == 16 || !add_entries(entries, count, kLongestEntry, most, processes))
      return false;
  }
  return true;
}

void forget_nvml() {
  // If the parent never loaded the library, the child may.
  if (g_state != State::kUntried) g_state = State::kMissing;
  begin_anew(g_devices);
}

}  // namespace gpupeak::preload
