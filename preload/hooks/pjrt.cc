// PJRT, the C API by which JAX and others reach XLA's plugins. Programs get a copy of a plugin's
// function table in which some functions are ours. Unlike ONNX Runtime's table, this one says how
// long it is. Each function has one argument, a pointer to a structure with its input and output.
#include <atomic>
#include <cstring>
#include <utility>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/imports.h"
#include "base/kept_errno.h"
#include "base/memory.h"
#include "base/text.h"
#include "gpupeak/pages.h"
#include "hooks/adapters.h"
#include "hooks/arena_tables.h"
#include "life/process.h"
#include "track/arena_objects.h"
#include "track/frameworks.h"
#include "track/phases.h"

namespace gpupeak::preload {
namespace {

constinit ArenaMaker g_maker{"XLA", "pools.xla"};

/// std::optional<tsl::AllocatorStats>, as the function returns it. JAX 0.11.2's plugin writes this.
/// Published headers have one word of `reserved` less.
struct OptionalBytes {
  int64_t bytes;
  uint8_t known;
};
struct Statistics {
  int64_t requests, in_use, most_in_use, largest_request;
  OptionalBytes limit;
  int64_t reserved[3];  // what is set aside inside the arena, not what it took from below
  OptionalBytes most_reservable;
  int64_t largest_idle;
  OptionalBytes arena, most_pool;
  uint8_t known;
};
static_assert(sizeof(Statistics) == 136);

ArenaTotals totals_of(uintptr_t statistics, uint64_t object) {
  struct Returned {
    Statistics told;
    uint8_t room[1024];  // for what later releases add
  };
  const Returned returned = reinterpret_cast<Returned (*)(uint64_t)>(statistics)(object);
  const Statistics& told = returned.told;
  if (told.known != 1 || told.arena.known != 1 || told.limit.known > 1 || told.in_use < 0 ||
      told.in_use > told.arena.bytes || told.in_use > told.most_in_use) {
    return {-1, 0, 0, 0};
  }
  // The count of requests is not used, since ClearStats may set it to 0 at any time.
  return {0, told.in_use, told.arena.bytes, told.limit.known ? told.limit.bytes : 0};
}

/// Slots as tsl::Allocator declares them, and as found in JAX 0.11.2's plugin. Releases with
/// another number of functions declare them in another order.
constexpr size_t kFunctions = 21;
constexpr const char* kArena = "N3tsl12BFCAllocatorE";
constexpr ArenaClass kClass{.maker = &g_maker,
                            .slot = {/*AllocateRaw*/ 3, /*with attributes*/ 4, kNoSlot,
                                     /*DeallocateRaw*/ 7, /*destructors*/ 0, 1},
                            .size_at = 2,
                            .statistics = /*GetStats*/ 16,
                            .totals = &totals_of,
                            .block_size = /*AllocatedSize*/ 13};
/// Versions of the C API around 0.115, with which this was seen.
constexpr int kFirstMinor = 105, kLastMinor = 125;

void off(int minor, const char* why) {
  arenas_off(Text<256>("XLA (PJRT 0.", minor, "): ", why,
                       "; XLA_PYTHON_CLIENT_ALLOCATOR=platform shows each buffer"));
}

/// Takes over the arenas of a plugin whose C API is 0.`minor`: before the plugin makes its first
/// arena, or at an attach. A second call for the same plugin does nothing. `inside`: an address in
/// the loaded plugin.
void take_over_xla_arenas(const void* inside, int minor) {
  if (!environment().arenas || !may_record()) return;
  const VirtualTable arena = find_virtual_table(inside, kArena);
  if (arena.slots == nullptr) return;  // a plugin without arenas: another maker's, or for the CPU
  if (minor < kFirstMinor || minor > kLastMinor || arena.count != kFunctions ||
      strcmp(arena.base, "N3tsl9AllocatorE") != 0) {
    return off(minor, "its arenas are not those of a release that is known");
  }
  if (!take_over_arena_tables(kClass, &arena, 1))
    return off(minor, "its table of functions cannot be written");
  arenas_on(g_maker, Text<32>("PJRT 0.", minor));
}

using Word = uintptr_t;
using Function = Word (*)(Word* arguments);  ///< returns an error; 0: success
using GetApi = const Word* (*)();

/// Words of PJRT_Api: its size, extensions, its version (size, extensions, major and minor), then
/// the functions. Source: pjrt_c_api.h. Within version 0 the table only grows at its end.
enum Slot : size_t {
  kSize = 0,
  kVersion = 4,
  kDestroyError = 5,
  kCompile = 25,
  kDestroyExecutable = 45,
  kNameOfExecutable = 46,
  kDestroyProgram = 55,
  kExecutableOfProgram = 56,
  kExecute = 60,
  kDeserializeAndLoad = 61,
  kLeastSlots = 62,
};
constexpr size_t kMostSlots = 4096;

/// One loaded plugin, as ort.cc's libraries. There is no lock: threads that fill an entry at the
/// same time write the same.
struct Plugin {
  std::atomic<GetApi> get_api{nullptr};  ///< the real one; nullptr: this place is free
  std::atomic<const Word*> real{nullptr};
  std::atomic<Word*> copy{nullptr};
};
constexpr size_t kMostPlugins = 4;
constinit Plugin g_plugins[kMostPlugins];

/// Calls a function of the plugin. `arguments`: its structure, which begins with its own size.
/// False: it failed.
bool went_well(const Word* api, Slot slot, Word* arguments) {
  const Word error = reinterpret_cast<Function>(api[slot])(arguments);
  if (error == 0) return true;
  Word destroy[] = {3 * sizeof(Word), 0, error};
  reinterpret_cast<Function>(api[kDestroyError])(destroy);
  return false;
}

/// The program's name, for which the plugin is asked once for each program.
Name name_of(const Word* api, Word program) {
  Name known = xla_program_name(program);
  if (known.id != 0) return known;
  Word of_program[] = {4 * sizeof(Word), 0, program, 0};
  if (!went_well(api, kExecutableOfProgram, of_program)) return {};
  const Word executable = of_program[3];
  Word name[] = {5 * sizeof(Word), 0, executable, 0, 0};
  if (went_well(api, kNameOfExecutable, name) && name[3] != 0)
    known = name_xla_program(program, {reinterpret_cast<const char*>(name[3]), name[4]});
  Word destroy[] = {3 * sizeof(Word), 0, executable};
  went_well(api, kDestroyExecutable, destroy);
  return known;
}

// The third word of each structure is the client or the program.

template <size_t kPlugin>
Function real_function(Slot slot) {
  return reinterpret_cast<Function>(g_plugins[kPlugin].real.load(std::memory_order_relaxed)[slot]);
}

/// A call that is a phase. The phase of an execution has the XLA program's name, and is left out if
/// there is none. Other phases are `compile`.
template <size_t kPlugin, Slot kSlot>
Word call_as_phase(Word* arguments) {
  KeptErrno program_errno;
  Label label{GPUPEAK_PHASE_PJRT, "compile"};
  if constexpr (kSlot == kExecute) {
    label.name = name_of(g_plugins[kPlugin].real.load(std::memory_order_relaxed), arguments[2]);
  }
  const Function real = real_function<kPlugin>(kSlot);
  if (label.name.id == 0 && label.name.text.empty()) return program_errno.call(real, arguments);
  CallPhase phase(label, __builtin_frame_address(0));
  return program_errno.call(real, arguments);
}

template <size_t kPlugin>
Word destroy_program(Word* arguments) {
  KeptErrno program_errno;
  xla_program_gone(arguments[2]);  // before the call: the address may be used again at once
  return program_errno.call(real_function<kPlugin>(kDestroyProgram), arguments);
}

/// The table's minor version; -1: such a table is not known.
int minor_of(const Word* table) {
  const size_t slots = table[kSize] / sizeof(Word);
  const bool known =
      static_cast<uint32_t>(table[kVersion]) == 0 && slots >= kLeastSlots && slots <= kMostSlots;
  return known ? static_cast<int>(table[kVersion] >> 32) : -1;
}

template <size_t kPlugin>
const Word* table_for(const Word* real) {
  Plugin& plugin = g_plugins[kPlugin];
  if (const Word* copy = plugin.copy.load(std::memory_order_acquire))
    return plugin.real.load(std::memory_order_relaxed) == real ? copy : real;
  const int minor = minor_of(real);
  if (minor < 0) return real;
  take_over_xla_arenas(reinterpret_cast<const void*>(real[kCompile]), minor);
  auto* copy = static_cast<Word*>(map_pages(whole_pages(real[kSize])));
  if (copy == nullptr) return real;
  memcpy(copy, real, real[kSize]);
  const std::pair<Slot, Function> ours[] = {
      {kCompile, &call_as_phase<kPlugin, kCompile>},
      {kDeserializeAndLoad, &call_as_phase<kPlugin, kDeserializeAndLoad>},
      {kExecute, &call_as_phase<kPlugin, kExecute>},
      {kDestroyProgram, &destroy_program<kPlugin>},
  };
  for (const auto& [slot, function] : ours) {
    if (copy[slot] != 0) copy[slot] = reinterpret_cast<Word>(function);
  }
  plugin.real.store(real, std::memory_order_relaxed);
  Word* first = nullptr;  // if another thread was faster, the pages of `copy` stay unused
  return plugin.copy.compare_exchange_strong(first, copy) ? copy : first;
}

template <size_t kPlugin>
const Word* get_api() {
  const GetApi real = g_plugins[kPlugin].get_api.load(std::memory_order_relaxed);
  const Word* const table = real();
  if (table == nullptr) return nullptr;
  const KeptErrno program_errno;
  say_arenas();
  return table_for<kPlugin>(table);
}

constexpr GetApi kEntries[] = {&get_api<0>, &get_api<1>, &get_api<2>, &get_api<3>};
static_assert(std::size(kEntries) == kMostPlugins);

/// Our entry to the plugin that the program looks up.
void* replace_entry(Dlsym real_dlsym, void* handle, const char* name) {
  void* const found = real_dlsym(handle, name);
  const auto real = reinterpret_cast<GetApi>(found);
  for (size_t place = 0; found != nullptr && place < kMostPlugins; ++place) {
    GetApi taken = nullptr;
    if (g_plugins[place].get_api.compare_exchange_strong(taken, real) || taken == real)
      return reinterpret_cast<void*>(kEntries[place]);
  }
  return found;
}

/// For a plugin that is in use already.
void take_over_loaded(void* entry) {
  if (find_virtual_table(entry, kArena).slots == nullptr) return;
  const Word* const table = reinterpret_cast<GetApi>(entry)();
  const int minor = table != nullptr ? minor_of(table) : -1;
  if (minor >= 0) take_over_xla_arenas(reinterpret_cast<const void*>(table[kCompile]), minor);
}

void forget_unloaded() {
  for (Plugin& plugin : g_plugins) {
    const GetApi get_api = plugin.get_api.load(std::memory_order_acquire);
    if (get_api == nullptr || data_end(reinterpret_cast<const void*>(get_api)) != nullptr) continue;
    plugin.copy.store(nullptr, std::memory_order_relaxed);  // the copy's pages stay mapped
    plugin.get_api.store(nullptr, std::memory_order_release);
  }
}

}  // namespace

const Adapter kPjrtAdapter{.of = "PJRT plugins: JAX and others",
                           .entry = "GetPjrtApi",
                           .replace = replace_entry,
                           .forget_unloaded = forget_unloaded,
                           .take_over_loaded = take_over_loaded,
                           .calls_it = true};

}  // namespace gpupeak::preload
