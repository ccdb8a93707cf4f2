#include "hooks/allocators.h"

#include <sys/stat.h>

#include <cstring>
#include <initializer_list>

#include "base/elf_lookup.h"
#include "base/function_entry.h"
#include "base/loader.h"
#include "base/syscalls.h"
#include "life/process.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

/// An allocator, and the names of its functions.
struct Family {
  const char* prefix;        ///< its functions' names begin with it
  const char* mark;          ///< a function that only it has
  const char* usable_size;   ///< its function for the size of a block
  const char* plain_malloc;  ///< if malloc has this function's address, malloc is the allocator's
  const char* plain_new;     ///< the same for C++'s operator new
};
constexpr Family kFamilies[] = {
    {"tc_", "tc_version", "tc_malloc_size", "tc_malloc", "tc_new"},
    {"mi_", "mi_version", "mi_usable_size", "mi_malloc", "mi_new"},
    {"je_", "je_mallctl", "je_malloc_usable_size", "je_malloc", nullptr},
    {"_rjem_", "_rjem_mallctl", "_rjem_malloc_usable_size", "_rjem_malloc", nullptr},
    {"scalable_", "scalable_malloc", "scalable_msize", nullptr, nullptr},
    // Without a prefix: jemalloc as it is built by default, and oneTBB's proxy library.
    {"", "mallctl", "malloc_usable_size", "malloc", nullptr},
    {"", "__TBB_malloc_proxy", "malloc_usable_size", "malloc", nullptr},
};
constexpr size_t kFamilyCount = sizeof kFamilies / sizeof *kFamilies;
constexpr size_t kMostFunctions = 256;

/// The functions of allocators that a library or the program defines.
struct Allocator {
  bool is_noted = false;  ///< something was found
  bool is_marked[kFamilyCount] = {};
  void* usable_size[kFamilyCount] = {};
  const void* plain_malloc[kFamilyCount] = {};
  const void* plain_new[kFamilyCount] = {};
  bool has_jemallocs_new = false;
  Symbol functions[kMostFunctions] = {};  // by row

  void note(const char* name, const Symbol& symbol) {
    const auto is = [name](const char* other) {
      return other != nullptr && strcmp(name, other) == 0;
    };
    for (size_t i = 0; i < kFamilyCount; ++i) {
      const Family& family = kFamilies[i];
      is_marked[i] |= is(family.mark);
      if (is(family.usable_size)) usable_size[i] = symbol.at;
      if (is(family.plain_malloc)) plain_malloc[i] = symbol.at;
      if (is(family.plain_new)) plain_new[i] = symbol.at;
    }
    for (size_t row = 0; row < allocator_function_count(); ++row) {
      if (is(allocator_function(row).name)) functions[row] = symbol;
    }
    is_noted = true;
  }

  bool has(size_t family) const { return is_marked[family] && usable_size[family] != nullptr; }
};

constinit Allocator g_looked_at;
constinit BlockSize g_usable_bytes[kFamilyCount];
constinit bool g_sees_programs_malloc = false;

/// A fast test, since it is made for the name of each function of the program.
bool may_be_of_interest(const char* name) {
  if (name[0] == '_' && name[1] == 'Z' && name[2] != 'n' && name[2] != 'd') return false;
  for (const char* with :
       {"_Znw",      "_Zna",        "_Zdl",      "_Zda",    "_rjem_",  "__TBB_m", "je_",
        "tc_",       "mi_",         "scalable_", "malloc",  "mallctl", "calloc",  "realloc",
        "posix_mem", "aligned_all", "memalign",  "valloc",  "pvalloc", "free",    "cfree",
        "rallocx",   "xallocx",     "dallocx",   "sdallocx"}) {
    if (begins(name, with)) return true;
  }
  return false;
}

void read_exports(const dl_phdr_info& object, Allocator& allocator) {
  for (size_t i = 0; i < kFamilyCount; ++i) {
    const Family& family = kFamilies[i];
    allocator.is_marked[i] = find_symbol(object, family.mark).at != nullptr;
    if (!allocator.is_marked[i]) continue;
    allocator.is_noted = true;
    for (const char* name : {family.usable_size, family.plain_malloc, family.plain_new}) {
      const Symbol found = name != nullptr ? find_symbol(object, name) : Symbol{};
      if (found.at != nullptr) allocator.note(name, found);
    }
    for (size_t row = 0; row < allocator_function_count(); ++row)
      allocator.functions[row] = find_symbol(object, allocator_function(row).name);
  }
  allocator.has_jemallocs_new = strstr(file_name(object), "jemalloc") != nullptr ||
                                begins(file_name(object), "libtbbmalloc_proxy");
}

void read_program(const dl_phdr_info& object, Allocator& allocator) {
  for_each_file_symbol("/proc/self/exe", [&](const char* name, uint64_t address, size_t bytes) {
    // A function of jemalloc_cpp.cc.
    if (begins(name, "_ZL9handleOOM")) allocator.has_jemallocs_new = true;
    if (!may_be_of_interest(name)) return;
    allocator.note(name, {reinterpret_cast<void*>(object.dlpi_addr + address), bytes});
  });
}

/// Whether the row is one of malloc's family under its own name. Calls of these come to our hooks
/// first, unless the program or a library preloaded before us defines them.
bool is_plain_name(size_t row) {
  return row < AllocatorFunction::kPlainNames;
}

bool has_known_prefix(const char* name) {
  for (const Family& family : kFamilies) {
    if (family.prefix[0] != 0 && begins(name, family.prefix)) return true;
  }
  return false;
}

bool is_plain_new(size_t row) {
  return begins(allocator_function(row).name, "_Z");
}

/// The family that the row's function belongs to in this library or program; kFamilyCount: no known
/// one. A program may have an operator new of its own; its blocks are no allocator's.
size_t family_of(const Allocator& allocator, size_t row) {
  const void* const at = allocator.functions[row].at;
  const char* const name = allocator_function(row).name;
  const auto function = [&](const char* wanted) -> const void* {
    for (size_t other = 0; other < allocator_function_count(); ++other) {
      if (strcmp(allocator_function(other).name, wanted) == 0) return allocator.functions[other].at;
    }
    return nullptr;
  };
  for (size_t i = 0; at != nullptr && i < kFamilyCount; ++i) {
    const Family& family = kFamilies[i];
    if (!allocator.has(i)) continue;
    const bool has_prefix = family.prefix[0] != 0;
    if (is_plain_name(row)) {
      if (allocator.plain_malloc[i] != nullptr && allocator.plain_malloc[i] == function("malloc")) {
        return i;
      }
    } else if (is_plain_new(row)) {
      const bool is_alias =
          allocator.plain_new[i] != nullptr && allocator.plain_new[i] == function("_Znwm");
      if (is_alias || (!has_prefix && allocator.has_jemallocs_new)) return i;
    } else if (has_prefix ? begins(name, family.prefix) : !has_known_prefix(name)) {
      return i;
    }
  }
  return kFamilyCount;
}

bool takes_back(size_t row) {
  return allocator_function(row).call != AllocatorCall::kAllocate &&
         allocator_function(row).call != AllocatorCall::kStore;
}

/// Code may only be changed while no other thread can run it.
bool has_one_thread() {
  struct stat tasks;
  return !sys::failed(sys::stat("/proc/self/task", &tasks)) && tasks.st_nlink == 3;
}

bool is_replaced(const void* entry) {
  for (size_t row = 0; row < allocator_function_count(); ++row) {
    if (replaced_function(row).entry == entry) return true;
  }
  return false;
}

constinit FunctionEntry g_entries[kMostFunctions] = {};
constinit size_t g_family[kMostFunctions] = {};

/// Prepares the functions' new entries. False: some calls of this allocator would not be seen.
/// `usable` becomes false if the allocator must be left alone.
bool prepare(const Allocator& allocator, bool with_plain_names, CodeRoom& room, bool& usable) {
  bool complete = true;
  for (size_t row = 0; row < allocator_function_count(); ++row) {
    g_entries[row] = {};
    g_family[row] = family_of(allocator, row);
    const Symbol& symbol = allocator.functions[row];
    if (g_family[row] == kFamilyCount || (is_plain_name(row) && !with_plain_names)) continue;
    bool known = replaced_function(row).entry != nullptr || is_replaced(symbol.at);
    for (size_t other = 0; other < row; ++other)  // the same function under another name
      known |= g_entries[other].at != nullptr && allocator.functions[other].at == symbol.at;
    if (known) continue;
    if ((room.is_open() || room.open(symbol.at)) &&
        prepare_entry(symbol.at, symbol.bytes, allocator_hook(row), room, g_entries[row])) {
      continue;
    }
    g_entries[row] = {};
    complete = false;
    // If blocks were seen handed out but not taken back, they would look like leaks.
    if (takes_back(row)) usable = false;
  }
  return complete;
}

/// Replaces the allocator's functions. False: some calls of this allocator are not seen.
bool replace(const Allocator& allocator, bool with_plain_names) {
  CodeRoom room;
  bool usable = true;
  bool complete = prepare(allocator, with_plain_names, room, usable);
  if (!room.is_open()) return complete;
  if (!room.close() || !usable || !has_one_thread()) return false;
  for (size_t row = 0; row < allocator_function_count(); ++row) {
    if (g_entries[row].at == nullptr) continue;
    BlockSize& usable_bytes = g_usable_bytes[g_family[row]];
    usable_bytes.init(reinterpret_cast<BlockSize::UsableSize>(allocator.usable_size[g_family[row]]),
                      false);
    const void* const entry = allocator.functions[row].at;
    replaced_function(row) = {entry, g_entries[row].original, &usable_bytes};
    if (replace_entry(g_entries[row])) {
      real_allocator_moved(entry, g_entries[row].original);
    } else {
      replaced_function(row) = {};
      complete = false;
    }
  }
  return complete;
}

/// Notes the functions themselves, which the hooks in slots call.
void note_functions(const Allocator& allocator) {
  for (size_t row = 0; row < allocator_function_count(); ++row) {
    const size_t family = family_of(allocator, row);
    if (family == kFamilyCount || is_plain_name(row) || replaced_function(row).entry != nullptr)
      continue;
    g_usable_bytes[family].init(
        reinterpret_cast<BlockSize::UsableSize>(allocator.usable_size[family]), false);
    const void* const at = allocator.functions[row].at;
    replaced_function(row) = {at, at, &g_usable_bytes[family]};
  }
}

constinit bool g_leaves_allocator_out = false;

/// Calls `look(object, allocator)` for each library, and the program, that has an allocator.
template <typename Look>
void for_each_allocator(Look look) {
  bool is_program = true;
  for_each_object([&](const dl_phdr_info& object) {
    Allocator& allocator = g_looked_at;
    if (allocator.is_noted) allocator = {};
    read_exports(object, allocator);
    if (is_program) read_program(object, allocator);
    is_program = false;
    bool is_allocator = false;
    for (size_t i = 0; i < kFamilyCount; ++i) is_allocator |= allocator.has(i);
    if (is_allocator) look(object, allocator);
    return false;
  });
}

/// For an attached program: notes its allocators, and changes no code, which could not be put back.
/// True if calls of malloc are seen.
bool find_allocators() {
  const void* const parts[] = {find_next("malloc"), find_next("free"),
                               find_next("malloc_usable_size")};
  bool sees_malloc = is_in(parts[0], "libc.so.6") && is_in(parts[1], "libc.so.6");
  g_leaves_allocator_out = false;
  for_each_allocator([&](const dl_phdr_info& object, Allocator& allocator) {
    if (!is_allocator_library(object)) {
      g_leaves_allocator_out = true;
      return;
    }
    note_functions(allocator);
    sees_malloc |= holds(object, parts[0]) && holds(object, parts[1]) && holds(object, parts[2]);
  });
  return sees_malloc;
}

}  // namespace

bool leaves_allocator_out() {
  return g_leaves_allocator_out;
}

bool is_allocator_library(const dl_phdr_info& object) {
  for (const char* with : {"libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc"}) {
    if (begins(file_name(object), with)) return true;
  }
  return false;
}

bool take_over_allocators() {
  if (came_late()) return find_allocators();
  const void* const used_malloc = find_first("malloc");
  for_each_allocator([&](const dl_phdr_info& object, Allocator& allocator) {
    const bool with_plain_names = holds(object, used_malloc);
    const bool complete = replace(allocator, with_plain_names);
    if (!complete) set_quality(GPUPEAK_Q_SECOND_MALLOC);
    // malloc's function may be known under another row's name.
    if (with_plain_names && complete) g_sees_programs_malloc = is_replaced(used_malloc);
  });
  return g_sees_programs_malloc;
}

}  // namespace gpupeak::preload
