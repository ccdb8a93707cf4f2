#include "hooks/ort_arena.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/proc_file.h"
#include "base/text.h"
#include "base/virtual_table.h"
#include "hooks/adapters.h"
#include "hooks/arena_tables.h"
#include "life/process.h"
#include "track/arena_objects.h"

namespace gpupeak::preload {
namespace {

constinit ArenaMaker g_maker{"ONNX Runtime", "pools.onnxruntime"};

/// The function fills in onnxruntime::AllocatorStats: allocations, reservations, extensions,
/// shrinkages and the bytes in use; since 1.28 or 1.29 also the bytes that were asked for; then the
/// bytes taken from below, and three words more. The number of words written tells the version.
ArenaTotals totals_of(uintptr_t statistics, uint64_t object) {
  constexpr size_t kRoom = 64;  // for what later releases add
  constexpr int64_t kUnwritten = 0x5bd1e995a97c2d37;
  int64_t words[kRoom];
  for (int64_t& word : words) word = kUnwritten;
  reinterpret_cast<void (*)(uint64_t, int64_t*)>(statistics)(object, words);
  size_t written = kRoom;
  while (written > 0 && words[written - 1] == kUnwritten) --written;
  if (written != 9 && written != 10) return {-1, 0, 0, 0};
  return {words[0] + words[1], words[4], words[written - 4], words[written - 1]};
}

/// The places of the functions. Sources: the classes' declarations in each release, and the
/// libraries of 1.15, 1.17, 1.20 to 1.27, 1.29 and 1.30.
struct Layout {
  int first_minor, last_minor;
  size_t least, most;  ///< number of functions in the table
  const char* base;    ///< the base class of the arena's class
  ArenaClass of;
};
constexpr ArenaClass ort_class(size_t on_stream, size_t reserve, size_t free, size_t statistics) {
  constexpr size_t kAlloc = 2, kDestroy = 0, kDelete = 1;
  return {.maker = &g_maker,
          .slot = {kAlloc, on_stream, reserve, free, kDestroy, kDelete},
          .size_at = 1,
          .statistics = statistics,
          .totals = &totals_of};
}
constexpr Layout kLayouts[] = {
    // The function that allocates on a stream is not virtual yet.
    {15, 22, 7, 7, "N11onnxruntime10IAllocatorE", ort_class(kNoSlot, 4, 3, 5)},
    {23, 23, 8, 8, "N11onnxruntime10IAllocatorE", ort_class(4, 6, 5, 7)},
    {24, 30, 10, 12, "N11onnxruntime6IArenaE", ort_class(4, 6, 5, 7)},
};
constexpr const char* kArena = "N11onnxruntime8BFCArenaE";
constexpr const char* kStreamArena = "N11onnxruntime19StreamAwareBFCArenaE";
constexpr const char* kOldStreamArena = "N11onnxruntime16StreamAwareArenaE";  // till 1.23

const ArenaClass* class_of(int minor, const VirtualTable& table) {
  for (const Layout& layout : kLayouts) {
    if (minor >= layout.first_minor && minor <= layout.last_minor && table.count >= layout.least &&
        table.count <= layout.most && strcmp(table.base, layout.base) == 0) {
      return &layout.of;
    }
  }
  return nullptr;
}

/// Whether `derived` is the arena for streams: it has these functions of `arena`, and one of its
/// own that allocates on a stream.
bool is_stream_arena(const VirtualTable& derived, const VirtualTable& arena, const ArenaClass& of) {
  if (derived.slots == nullptr || derived.count < arena.count ||
      strcmp(derived.base, kArena) != 0) {
    return false;
  }
  for (const size_t slot :
       {of.slot[kArenaAlloc], of.slot[kArenaFree], of.slot[kArenaReserve], of.statistics}) {
    if (derived.slots[slot] != arena.slots[slot]) return false;
  }
  const size_t on_stream = of.slot[kArenaAllocOther];
  return derived.slots[on_stream] != arena.slots[on_stream];
}

void off(const char* version, const char* why) {
  arenas_off(Text<256>("ONNX Runtime ", version, ": ", why));
}

using Version = Text<32>;

std::string_view folder_of(std::string_view path) {
  size_t end = path.size();
  while (end > 0 && path[end - 1] != '/') --end;
  return head(path, end > 0 ? end - 1 : 0);
}

/// The package's own version, onnxruntime.__version__: a line of the package's __init__.py, which
/// Python is executing, begins with `__version__ = "1.23.2"`. Empty: there is no such line.
Version package_version(std::string_view module) {
  const Path path(folder_of(folder_of(module)), "/__init__.py");
  char text[4096];  // the line is right below the licence
  text[read_file(path.c_str(), text, sizeof text - 1)] = 0;
  Version version;
  const char* at = strstr(text, "\n__version__ = ");
  if (at == nullptr) return version;
  at += strlen("\n__version__ = ");
  const char quote = *at++;
  if (quote != '"' && quote != '\'') return version;
  const char* const end = strchr(at, quote);
  if (end != nullptr) version.add({at, static_cast<size_t>(end - at)});
  return version;
}

/// Takes over the module's arenas. `entry`: that function, before its first call or later.
void take_over_ort_wheel(void* entry) {
  const int program_errno = errno;
  const Version version = package_version(module_path(entry));
  take_over_ort_arenas(entry, version.view().empty() ? "(unknown version)" : version.c_str());
  errno = program_errno;
}

void* look_at_wheel(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  if (found != nullptr) take_over_ort_wheel(found);
  return found;
}

}  // namespace

int ort_minor_version(const char* version) {
  if (version == nullptr || version[0] != '1' || version[1] != '.') return -1;
  const char* at = version + 2;
  if (*at < '0' || *at > '9') return -1;
  const uint64_t minor = next_number(at);
  return *at != '.' || minor > INT32_MAX ? -1 : static_cast<int>(minor);
}

void take_over_ort_arenas(const void* inside, const char* version) {
  if (!environment().arenas || !may_record() || has_arena_tables(inside)) return;
  // No lock of ours is held while searching, since that takes the loader's lock.
  VirtualTable tables[2];
  tables[0] = find_virtual_table(inside, kArena);
  if (tables[0].slots == nullptr) return off(version, "the class of its arenas was not found");
  const ArenaClass* const of = class_of(ort_minor_version(version), tables[0]);
  if (of == nullptr) return off(version, "its arenas are not those of a release that is known");
  // Before 1.23 arenas for streams allocate by a function that is not virtual. They are left alone.
  const bool for_streams = of->slot[kArenaAllocOther] != kNoSlot;
  if (for_streams) {
    tables[1] = find_virtual_table(inside, kStreamArena);
    if (tables[1].slots == nullptr) tables[1] = find_virtual_table(inside, kOldStreamArena);
    if (!is_stream_arena(tables[1], tables[0], *of)) {
      return off(version, "its arenas for streams are not those that are known");
    }
  }
  if (!take_over_arena_tables(*of, tables, for_streams ? 2 : 1)) {
    return off(version, "its table of functions cannot be written");
  }
  arenas_on(g_maker, version);
}

/// Its module contains the library, and exports only the function that Python's import looks up. So
/// its arenas are found from that function.
const Adapter kOrtWheelAdapter{.of = "ONNX Runtime's Python package",
                               .entry = "PyInit_onnxruntime_pybind11_state",
                               .replace = look_at_wheel,
                               .take_over_loaded = take_over_ort_wheel};

}  // namespace gpupeak::preload
