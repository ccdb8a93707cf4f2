#include "stack/module_map.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/elf_lookup.h"
#include "base/loader.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "gpupeak/pages.h"
#include "log/log.h"
#include "stack/frame_rules.h"
#include "stack/python_runtime.h"
#include "stack/trie.h"
#include "stack/unwinder.h"

// Placed by the linker: where this library begins and ends.
extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
}

namespace gpupeak::preload {
namespace {

constexpr uint32_t kMaxModules = 8192;
constexpr int kMaxSegments = 8;

struct Segment {
  uintptr_t begin, bytes, file_offset;
};

struct Module {
  uintptr_t bias;
  uintptr_t begin, end;  ///< over all segments
  Segment segments[kMaxSegments];
  int segment_count;
  const uint8_t* unwind_table;  ///< .eh_frame_hdr
  const char* path;             ///< in memory of our own
  uint8_t build_id[32];
  uint32_t build_id_bytes;
  bool loaded;
  uint64_t seen;    ///< number of the last scan that met it
  uint64_t met_ns;  ///< since 1970
};

struct ModuleMap {
  FutexLock lock;  ///< taken inside the loader's lock, never around a call into the loader
  Module* modules = nullptr;
  uint32_t count = 0;  ///< also the number of ids given out
  static constexpr size_t kFound = 64;
  uint32_t found[kFound] = {};  ///< where find_module() looks first: modules, by piece of addresses
  uint64_t scans = 0;           ///< begun so far; threads may scan at the same time
  unsigned long long loads = 0, unloads = 0;
  uint32_t objects = 0;  ///< how many the loader showed then; it shows new ones last
  const char* own_path = "";
};
constinit ModuleMap g_map;

// Code that a program registers for debuggers (GDB's JIT interface: LLVM, numba, Julia): a list of
// ELF files in memory. They are copied, never touched, since they may be gone or damaged.

/// Each list's newest entry, in the data of a library, and which it was when the list was read.
constexpr uint32_t kMostLists = 8, kMostFiles = 4096;
constinit const uint64_t* g_registered[kMostLists] = {};
constinit uint64_t g_registered_then[kMostLists] = {};
constinit uint32_t g_lists = 0, g_registered_steps = 0;  ///< sections and symbols looked at
constinit std::atomic<bool> g_reads_registered{false};

char* copy_text(const char* text) {
  static char* pool = nullptr;
  static size_t left = 0;
  const size_t bytes = strlen(text) + 1;
  if (bytes > left) {
    const size_t size = bytes > 65536 ? whole_pages(bytes) : 65536;
    pool = static_cast<char*>(map_pages(size));
    left = pool != nullptr ? size : 0;
    if (pool == nullptr) return nullptr;
  }
  char* copy = static_cast<char*>(memcpy(pool, text, bytes));
  pool += bytes;
  left -= bytes;
  return copy;
}

void read_build_id(Module& module, const dl_phdr_info& object, const ElfW(Phdr) & notes) {
  const auto* at = reinterpret_cast<const uint8_t*>(object.dlpi_addr + notes.p_vaddr);
  const uint8_t* end = at + notes.p_memsz;
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    const auto note = value_at<ElfW(Nhdr)>(at);
    const uint8_t* name = at + sizeof note;
    const uint8_t* value = name + (note.n_namesz + 3) / 4 * 4;
    if (value > end || note.n_descsz > static_cast<size_t>(end - value)) return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
      module.build_id_bytes =
          note.n_descsz < sizeof module.build_id ? note.n_descsz : sizeof module.build_id;
      memcpy(module.build_id, value, module.build_id_bytes);
      return;
    }
    at = value + (note.n_descsz + 3) / 4 * 4;
  }
}

bool describe(Module& module, const dl_phdr_info& object) {
  module = {};
  module.bias = object.dlpi_addr;
  module.begin = UINTPTR_MAX;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object.dlpi_phdr[i];
    if (header.p_type == PT_LOAD && module.segment_count < kMaxSegments) {
      const uintptr_t begin = object.dlpi_addr + header.p_vaddr;
      module.segments[module.segment_count++] = {begin, header.p_memsz, header.p_offset};
      if (begin < module.begin) module.begin = begin;
      if (begin + header.p_memsz > module.end) module.end = begin + header.p_memsz;
    } else if (header.p_type == PT_GNU_EH_FRAME) {
      module.unwind_table = reinterpret_cast<const uint8_t*>(object.dlpi_addr + header.p_vaddr);
    } else if (header.p_type == PT_NOTE && module.build_id_bytes == 0) {
      read_build_id(module, object, header);
    }
  }
  return module.segment_count > 0;
}

void define_module(const Module& module) {
  const std::string_view build_id(reinterpret_cast<const char*>(module.build_id),
                                  module.build_id_bytes);
  Record record{GPUPEAK_DEF_MODULE, ticks(),  module.bias,
                module.path,        build_id, module.segment_count};
  for (int i = 0; i < module.segment_count; ++i)
    record.u(module.segments[i].begin)
        .u(module.segments[i].bytes)
        .u(module.segments[i].file_offset);
  define(record);
}

/// The path under which an object can be found again later. Inside the lock.
const char* path_of(const dl_phdr_info& object, bool is_program) {
  static char program[4096];
  if (object.dlpi_name != nullptr && object.dlpi_name[0] != 0) return object.dlpi_name;
  if (!is_program) return "";
  const std::string_view file = program_file(program, sizeof program);
  return file.empty() ? "" : file.data();
}

/// The loaded module that holds `ip`, or nullptr. Modules never move or vanish, and one is whole
/// before it is counted. Takes no lock: the module may be unloaded meanwhile, as after any answer.
const Module* find_module(uintptr_t ip) {
  const auto holds = [ip](const Module& module) {
    return std::atomic_ref<bool>(const_cast<bool&>(module.loaded))
               .load(std::memory_order_relaxed) &&
           ip - module.begin < module.end - module.begin;
  };
  constexpr uintptr_t kPieceBytes = 64 << 10;
  const uint32_t count = std::atomic_ref<uint32_t>(g_map.count).load(std::memory_order_acquire);
  const std::atomic_ref<uint32_t> found(g_map.found[ip / kPieceBytes % ModuleMap::kFound]);
  const uint32_t last = found.load(std::memory_order_relaxed);
  if (last < count && holds(g_map.modules[last])) return &g_map.modules[last];
  for (uint32_t i = count; i-- > 0;) {
    if (!holds(g_map.modules[i])) continue;
    found.store(i, std::memory_order_relaxed);
    return &g_map.modules[i];
  }
  return nullptr;
}

/// Finds where the dynamic loader lies, by a function that all its versions have. Several threads
/// may find the same.
void find_loader() {
  MallocEntry& entry = gpupeak_malloc_entry;
  if (__atomic_load_n(&entry.loader_bytes, __ATOMIC_RELAXED) != 0) return;
  const auto inside = reinterpret_cast<uintptr_t>(find_in("", "__tls_get_addr"));
  if (const Module* loader = inside != 0 ? find_module(inside) : nullptr) {
    __atomic_store_n(&entry.loader_begin, loader->begin, __ATOMIC_RELAXED);
    __atomic_store_n(&entry.loader_bytes, loader->end - loader->begin, __ATOMIC_RELEASE);
  }
}

/// Logs that the module is gone, and forgets what is known of its code. The caller holds the lock.
void drop(uint32_t index) {
  Module& module = g_map.modules[index];
  std::atomic_ref<bool>(module.loaded).store(false, std::memory_order_relaxed);
  define(Record{GPUPEAK_DEF_UNLOAD, ticks(), index + 1});
  forget_python(module.begin, module.end);
  forget_frame_rules();
  forget_nodes(module.begin, module.end);
  forget_unwound_code();
}

/// One object of a scan: known already, or new. Runs under the loader's lock; takes ours.
void meet(const dl_phdr_info& object, bool is_program) {
  Module module;
  if (!describe(module, object)) return;
  LockGuard guard(g_map.lock);
  const char* path = path_of(object, is_program);
  for (uint32_t i = 0; i < g_map.count; ++i) {
    Module& known = g_map.modules[i];
    if (known.loaded && known.begin == module.begin && known.end == module.end &&
        known.build_id_bytes == module.build_id_bytes &&
        memcmp(known.build_id, module.build_id, module.build_id_bytes) == 0 &&
        strcmp(known.path, path) == 0) {
      known.seen = g_map.scans;
      return;
    }
    const bool apart = known.end <= module.begin || module.end <= known.begin;
    if (known.loaded && !apart) drop(i);  // another one lies there, so this one is gone
  }
  if (g_map.count == kMaxModules) return;
  module.path = copy_text(path);
  if (module.path == nullptr) module.path = "";
  module.loaded = true;
  module.seen = g_map.scans;
  module.met_ns = realtime_ns();
  g_map.modules[g_map.count] = module;
  std::atomic_ref<uint32_t>(g_map.count).store(g_map.count + 1, std::memory_order_release);
  define_module(module);
  // What is remembered may be of code that was there.
  forget_frame_rules();
  if (g_guessing.load(std::memory_order_relaxed)) drop_cached_stacks();
  meet_python(object, module.begin, module.end);
  if (const Symbol list = find_symbol(object, "__jit_debug_descriptor"); list.at != nullptr)
    g_registered[g_lists++ % kMostLists] = static_cast<const uint64_t*>(list.at) + 2;
  const auto here = reinterpret_cast<uintptr_t>(&own_path);
  if (here - module.begin < module.end - module.begin) g_map.own_path = module.path;
}

/// Logs as unloaded the modules that scan `number` did not meet; the scan was complete.
void sweep(uint64_t number) {
  for (uint32_t i = 0; i < g_map.count; ++i) {
    LockGuard guard(g_map.lock);
    const Module& module = g_map.modules[i];
    if (module.loaded && module.seen < number) drop(i);
  }
}

// What the next two read is written under the lock, and read without it.
bool has_modules() {
  return std::atomic_ref(g_map.modules).load(std::memory_order_acquire) != nullptr;
}
bool has_unloaded_since(const LoaderState& state) {
  return state.unloads != std::atomic_ref(g_map.unloads).load(std::memory_order_relaxed);
}

/// Meets modules that the loader has and we do not know. Returns the scan's number if a module may
/// be gone, else 0.
uint64_t scan() {
  if (!has_modules()) {
    void* at = reserve_pages(kMaxModules * sizeof(Module));
    if (at == nullptr) return 0;
    LockGuard guard(g_map.lock);
    if (g_map.modules == nullptr) {
      std::atomic_ref(g_map.modules).store(static_cast<Module*>(at), std::memory_order_release);
    } else {
      unmap_pages(at, kMaxModules * sizeof(Module));
    }
  }
  const LoaderState state = loader_state();
  uint64_t number;
  unsigned long long unloads;
  uint32_t known;
  {
    LockGuard guard(g_map.lock);
    number = ++g_map.scans;
    unloads = g_map.unloads;
    known = g_map.objects;
  }
  uint32_t objects = 0;
  bool none_gone = true;
  for_each_object([&](const dl_phdr_info& object) {
    // As long as no module has gone, new ones come behind those that we know.
    none_gone = none_gone && object.dlpi_subs == unloads;
    if (!none_gone || objects >= known) meet(object, objects == 0);
    ++objects;
    return false;
  });
  if (none_gone) number = 0;
  find_loader();
  LockGuard guard(g_map.lock);
  g_map.objects = objects;
  std::atomic_ref(g_map.loads).store(state.loads, std::memory_order_relaxed);
  std::atomic_ref(g_map.unloads).store(state.unloads, std::memory_order_relaxed);
  return number;
}

/// Enters libraries that have come and removes those that have gone. Always does both, since each
/// change is seen only once.
void rescan() {
  if (const uint64_t number = scan()) sweep(number);
}

/// Whether the module's file is no longer there, or has been written since it was loaded.
bool has_lost_file(const Module& module) {
  constexpr uint64_t kSecond = 1000000000;
  struct stat file;
  if (strchr(module.path, '/') == nullptr || !module.loaded) return false;
  if (sys::failed(sys::stat(module.path, &file))) return true;
  const auto changed = static_cast<uint64_t>(file.st_ctim.tv_sec) * kSecond +
                       static_cast<uint64_t>(file.st_ctim.tv_nsec);
  return changed > module.met_ns;
}

void define_exports(uint32_t id, const dl_phdr_info& object) {
  constexpr uint32_t kMostSymbols = 16384;
  const SymbolTable table = symbol_table(object);
  if (table.symbols == nullptr || table.strings == nullptr) return;
  const Text<32> key("symbol.", id);
  const uint32_t count = symbol_count(table);
  for (uint32_t i = 1; i < count && i < kMostSymbols; ++i) {
    const ElfW(Sym)& symbol = table.symbols[i];
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0 ||
        ELF64_ST_TYPE(symbol.st_info) != STT_FUNC)
      continue;
    define_fact(
        key, Text<1024>(symbol.st_value, " ", symbol.st_size, " ", table.strings + symbol.st_name));
  }
}

template <typename T>
bool copy(uint64_t from, T& to, size_t bytes = sizeof(T)) {
  const iovec into{&to, bytes}, of{reinterpret_cast<void*>(from), bytes};
  return sys::process_vm_readv(sys::getpid(), &into, 1, &of, 1) == static_cast<long>(bytes);
}

void define_symbols(uint64_t file, uint64_t bytes) {
  constexpr uint64_t kLargest = 256 << 20, kMostSteps = 1 << 16;
  ElfW(Ehdr) header;
  ElfW(Shdr) table, names, code;
  const auto section = [&](uint32_t i, ElfW(Shdr) & to) {
    return i < header.e_shnum && copy(file + header.e_shoff + i * sizeof to, to) &&
           to.sh_offset <= bytes && to.sh_size <= bytes - to.sh_offset;
  };
  if (bytes > kLargest || !copy(file, header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return;
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    if (++g_registered_steps > kMostSteps) return;
    if (!section(i, table) || table.sh_type != SHT_SYMTAB || !section(table.sh_link, names))
      continue;
    const uint64_t end = table.sh_offset + table.sh_size;
    ElfW(Sym) symbol;
    for (uint64_t at = table.sh_offset; at + sizeof symbol <= end; at += sizeof symbol) {
      char name[512] = {};
      if (++g_registered_steps > kMostSteps || !copy(file + at, symbol)) return;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= names.sh_size) continue;
      const uint64_t left = names.sh_size - symbol.st_name, room = sizeof name - 1;
      if (!copy(file + names.sh_offset + symbol.st_name, name, left < room ? left : room)) continue;
      code.sh_addr = 0;
      if (header.e_type == ET_REL && !section(symbol.st_shndx, code)) continue;
      define_fact("symbol.0",
                  Text<600>(symbol.st_value + code.sh_addr, " ", symbol.st_size, " ", name));
    }
  }
}

/// Logs the functions of files that were registered since the last look.
void define_registered() {
  if (g_lists == 0 || g_reads_registered.exchange(true)) return;
  for (uint32_t list = 0; list < kMostLists; ++list) {
    const auto* const at = g_registered[list];
    if (at == nullptr || find_module(reinterpret_cast<uintptr_t>(at)) == nullptr) continue;
    uint64_t entry[4] = {__atomic_load_n(at, __ATOMIC_ACQUIRE)};  // next, previous, file, bytes
    const uint64_t last = std::exchange(g_registered_then[list], entry[0]);
    if (entry[0] == last || call_filters() != 0) continue;  // a sandbox may kill who copies
    for (uint32_t i = 0; i < kMostFiles && entry[0] != last && copy(entry[0], entry); ++i)
      define_symbols(entry[2], entry[3]);
  }
  g_reads_registered = false;
}

}  // namespace

extern "C" {
GPUPEAK_HOT_DATA constinit MallocEntry gpupeak_malloc_entry{};
}
constinit std::atomic<bool> g_hears_loader{false};

void cover_with_modules(uintptr_t ip) {
  if (find_module(ip) != nullptr) return;
  // Code that the loader does not know is generated at run time.
  if (loader_has_code(ip) == IsLoaded::kNo) return define_registered();
  const LoaderState state = loader_state();
  const bool has_loaded =
      state.loads != std::atomic_ref(g_map.loads).load(std::memory_order_relaxed);
  if (has_modules() && !has_loaded && !has_unloaded_since(state)) return define_registered();
  rescan();
}

UnwindTable unwind_table_of(uintptr_t ip) {
  cover_with_modules(ip);
  const Module* module = find_module(ip);
  return module != nullptr ? UnwindTable{module->unwind_table, true} : UnwindTable{nullptr, false};
}

bool modules_were_unloaded() {
  return has_modules() && has_unloaded_since(loader_state());
}

void drop_unloaded_modules() {
  if (modules_were_unloaded()) rescan();
}

uintptr_t module_end_at(uintptr_t address) {
  const Module* module = find_module(address);
  return module != nullptr ? module->end : 0;
}

bool is_own_code(uintptr_t ip) {
  const auto begin = reinterpret_cast<uintptr_t>(__ehdr_start);
  return ip - begin < reinterpret_cast<uintptr_t>(_end) - begin;
}

const char* own_path() {
  cover_with_modules(reinterpret_cast<uintptr_t>(&own_path));
  return g_map.own_path;
}

void define_lost_names() {
  bool any = false;
  if (call_filters() != 0) return;  // a sandbox may kill who looks for files
  for (uint32_t i = 0; i < g_map.count && !any; ++i) any = has_lost_file(g_map.modules[i]);
  if (!any) return;
  for_each_object([](const dl_phdr_info& object) {
    Module module;
    if (!describe(module, object)) return false;
    for (uint32_t i = 0; i < g_map.count; ++i) {
      const Module& known = g_map.modules[i];
      if (known.begin == module.begin && has_lost_file(known)) define_exports(i + 1, object);
    }
    return false;
  });
}

void redefine_modules(bool forked) {
  if (forked) g_map.lock.reset();
  memset(g_registered_then, 0, sizeof g_registered_then);
  g_registered_steps = 0;
  if (forked) g_reads_registered = false;
  LockGuard guard(g_map.lock);
  for (uint32_t i = 0; i < g_map.count; ++i) {
    define_module(g_map.modules[i]);
    if (!g_map.modules[i].loaded) define(Record{GPUPEAK_DEF_UNLOAD, ticks(), i + 1});
  }
}

}  // namespace gpupeak::preload
