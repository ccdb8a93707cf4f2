#include "hooks/allocators.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/elf_lookup.h"
#include "base/function_entry.h"
#include "base/hook_scope.h"
#include "base/loader.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "hooks/export.h"
#include "life/process.h"
#include "log/log.h"
#include "track/heap.h"

namespace gpupeak::preload {
extern "C" {
/// Calls `function`; in allocator_call_*.S.
uintptr_t gpupeak_allocator_call(const void* function, const uintptr_t arguments[6]);
/// The personality routine of gpupeak_allocator_call: an exception leaves the call.
int gpupeak_allocator_left(int version, int actions, uint64_t exception_class, void* exception,
                           void* context);
}

namespace {

// The hooks in place of other allocators' functions. Each makes the call and tells track/heap of
// it, unless one of these functions calls another.

constexpr uint8_t kNone = AllocatorFunction::kNone;
constexpr AllocatorFunction kFunctions[] = {
#define ALLOCATES(name, bytes, count) {#name, AllocatorCall::kAllocate, kNone, bytes, count},
#define STORES(name, block, bytes) {#name, AllocatorCall::kStore, block, bytes, kNone},
#define REALLOCATES(name, block, bytes, count) \
  {#name, AllocatorCall::kReallocate, block, bytes, count},
#define RESIZES(name, block, bytes) {#name, AllocatorCall::kResize, block, bytes, kNone},
#define FREES(name, block) {#name, AllocatorCall::kFree, block, kNone, kNone},
#include "hooks/allocator_table.def"
#undef ALLOCATES
#undef STORES
#undef REALLOCATES
#undef RESIZES
#undef FREES
};
constexpr size_t kCount = sizeof kFunctions / sizeof *kFunctions;
static_assert(kFunctions[AllocatorFunction::kPlainNames - 1].name ==
              std::string_view("free_aligned_sized"));
constinit ReplacedFunction g_replaced[kCount];

using Arguments = uintptr_t[6];

size_t asked_bytes(const AllocatorFunction& function, const Arguments& arguments, void* block,
                   BlockSize& usable_bytes) {
  if (function.bytes == kNone) return usable_bytes(block);
  const size_t bytes = arguments[function.bytes];
  return function.count == kNone ? bytes : bytes * arguments[function.count];
}

__attribute__((noinline, cold)) void note_failure(const AllocatorFunction& function,
                                                  const Arguments& arguments, int error,
                                                  const CallerFrame& caller) {
  if (function.bytes == kNone) return;
  size_t bytes = arguments[function.bytes];
  if (function.count != kNone && __builtin_mul_overflow(bytes, arguments[function.count], &bytes))
    bytes = SIZE_MAX;
  host_allocation_failed(GPUPEAK_KIND_HEAP, function.name, bytes, error, caller);
}

uintptr_t call_original(const ReplacedFunction& replaced, const Arguments& arguments) {
  AllocatorScope scope;
  return gpupeak_allocator_call(replaced.original, arguments);
}

uintptr_t allocate(const AllocatorFunction& function, const ReplacedFunction& replaced,
                   const Arguments& arguments, const CallerFrame& caller) {
  const uintptr_t result = call_original(replaced, arguments);
  void* block = reinterpret_cast<void*>(result);
  if (function.call == AllocatorCall::kStore) {
    block = nullptr;
    if (static_cast<int>(result) == 0)
      memcpy(&block, reinterpret_cast<const void*>(arguments[function.block]), sizeof block);
  }
  if (block != nullptr) {
    BlockSize& usable_bytes = *replaced.usable_bytes;
    heap_allocated(block, asked_bytes(function, arguments, block, usable_bytes),
                   usable_bytes(block), caller);
  } else {
    const bool stores = function.call == AllocatorCall::kStore;
    note_failure(function, arguments, stores ? static_cast<int>(result) : errno, caller);
  }
  return result;
}

uintptr_t reallocate(const AllocatorFunction& function, const ReplacedFunction& replaced,
                     const Arguments& arguments, const CallerFrame& caller) {
  BlockSize& usable_bytes = *replaced.usable_bytes;
  void* const old_block = reinterpret_cast<void*>(arguments[function.block]);
  const ReallocState state = heap_realloc_begin(old_block, usable_bytes(old_block));
  const uintptr_t result = call_original(replaced, arguments);
  const size_t bytes = asked_bytes(function, arguments, old_block, usable_bytes);
  const bool resizes = function.call == AllocatorCall::kResize;
  void* const block = resizes ? old_block : reinterpret_cast<void*>(result);
  if (resizes ? result >= bytes : block != nullptr) {
    heap_realloc_end(state, block, bytes, usable_bytes(block), caller);
  } else if (bytes == 0 && !resizes) {
    heap_realloc_freed(state, old_block);
  } else {
    heap_realloc_failed(state, old_block);
    if (!resizes) note_failure(function, arguments, errno, caller);
  }
  return result;
}

/// A call that an exception may end.
struct OpenCall {
  const AllocatorFunction& function;
  const Arguments& arguments;
  const CallerFrame& caller;
};
constinit thread_local const OpenCall* t_call __attribute__((tls_model("initial-exec"))) = nullptr;

__attribute__((noinline)) uintptr_t record(size_t row, const Arguments& arguments,
                                           const CallerFrame& caller) {
  const AllocatorFunction& function = kFunctions[row];
  const ReplacedFunction& replaced = g_replaced[row];
  const bool frees = function.call == AllocatorCall::kFree;
  const uintptr_t old_block = function.block == kNone ? 0 : arguments[function.block];
  if (frees) {
    if (old_block != 0) heap_freed(reinterpret_cast<void*>(old_block), *replaced.usable_bytes);
    return call_original(replaced, arguments);
  }
  const bool has_old = old_block != 0 && (function.call == AllocatorCall::kReallocate ||
                                          function.call == AllocatorCall::kResize);
  if (has_old) return reallocate(function, replaced, arguments, caller);
  const OpenCall call{function, arguments, caller};
  t_call = &call;
  const uintptr_t result = allocate(function, replaced, arguments, caller);
  t_call = nullptr;
  return result;
}

bool is_inside_allocator() {
  return t_flags.in_allocator != 0 &&
         !was_left_by_longjmp(t_flags.in_allocator, arch::stack_pointer());
}

using Hook = uintptr_t (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
/// It passes on more arguments than a function may have. They are in registers, so that does no
/// harm.
template <size_t kRow>
uintptr_t hook(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f) {
  if (!host_recording() || is_inside_allocator()) {
    const void* const original = g_replaced[kRow].original;
    return reinterpret_cast<Hook>(const_cast<void*>(original))(a, b, c, d, e, f);
  }
  const Arguments arguments{a, b, c, d, e, f};
  return record(kRow, arguments, GPUPEAK_CALLER);
}

template <size_t... kRows>
constexpr std::array<Hook, kCount> make_hooks(std::index_sequence<kRows...>) {
  return {&hook<kRows>...};
}
constexpr std::array<Hook, kCount> kHooks = make_hooks(std::make_index_sequence<kCount>());

// Which functions of which libraries are replaced.

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
    for (size_t row = 0; row < kCount; ++row) {
      if (is(kFunctions[row].name)) functions[row] = symbol;
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
  static constexpr std::string_view kBegins[] = {
      "_Znw",      "_Zna",        "_Zdl",      "_Zda",    "_rjem_",  "__TBB_m", "je_",
      "tc_",       "mi_",         "scalable_", "malloc",  "mallctl", "calloc",  "realloc",
      "posix_mem", "aligned_all", "memalign",  "valloc",  "pvalloc", "free",    "cfree",
      "rallocx",   "xallocx",     "dallocx",   "sdallocx"};
  return std::ranges::any_of(kBegins, [name](std::string_view with) { return begins(name, with); });
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
    for (size_t row = 0; row < kCount; ++row)
      allocator.functions[row] = find_symbol(object, kFunctions[row].name);
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

/// The family that the row's function belongs to in this library or program; kFamilyCount: no known
/// one. A program may have an operator new of its own; its blocks are no allocator's.
size_t family_of(const Allocator& allocator, size_t row) {
  const void* const at = allocator.functions[row].at;
  const char* const name = kFunctions[row].name;
  const auto function = [&](const char* wanted) -> const void* {
    for (size_t other = 0; other < kCount; ++other) {
      if (strcmp(kFunctions[other].name, wanted) == 0) return allocator.functions[other].at;
    }
    return nullptr;
  };
  const bool has_known_prefix = std::ranges::any_of(kFamilies, [name](const Family& family) {
    return family.prefix[0] != 0 && begins(name, family.prefix);
  });
  for (size_t i = 0; at != nullptr && i < kFamilyCount; ++i) {
    const Family& family = kFamilies[i];
    if (!allocator.has(i)) continue;
    const bool has_prefix = family.prefix[0] != 0;
    if (is_plain_name(row)) {
      if (allocator.plain_malloc[i] != nullptr && allocator.plain_malloc[i] == function("malloc"))
        return i;
    } else if (begins(name, "_Z")) {
      const bool is_alias =
          allocator.plain_new[i] != nullptr && allocator.plain_new[i] == function("_Znwm");
      if (is_alias || (!has_prefix && allocator.has_jemallocs_new)) return i;
    } else if (has_prefix ? begins(name, family.prefix) : !has_known_prefix) {
      return i;
    }
  }
  return kFamilyCount;
}

/// Code may only be changed while no other thread can run it.
bool has_one_thread() {
  struct stat tasks;
  return !sys::failed(sys::stat("/proc/self/task", &tasks)) && tasks.st_nlink == 3;
}

bool is_replaced(const void* entry) {
  return std::ranges::any_of(
      g_replaced, [entry](const ReplacedFunction& known) { return known.entry == entry; });
}

constinit FunctionEntry g_entries[kMostFunctions] = {};
constinit size_t g_family[kMostFunctions] = {};

/// Prepares the functions' new entries. False: some calls of this allocator would not be seen.
/// `usable` becomes false if the allocator must be left alone.
bool prepare(const Allocator& allocator, bool with_plain_names, CodeRoom& room, bool& usable) {
  bool complete = true;
  for (size_t row = 0; row < kCount; ++row) {
    g_entries[row] = {};
    g_family[row] = family_of(allocator, row);
    const Symbol& symbol = allocator.functions[row];
    if (g_family[row] == kFamilyCount || (is_plain_name(row) && !with_plain_names)) continue;
    bool known = g_replaced[row].entry != nullptr || is_replaced(symbol.at);
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
    const AllocatorCall call = kFunctions[row].call;
    usable &= call == AllocatorCall::kAllocate || call == AllocatorCall::kStore;
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
  for (size_t row = 0; row < kCount; ++row) {
    if (g_entries[row].at == nullptr) continue;
    BlockSize& usable_bytes = g_usable_bytes[g_family[row]];
    usable_bytes.init(reinterpret_cast<BlockSize::UsableSize>(allocator.usable_size[g_family[row]]),
                      false);
    const void* const entry = allocator.functions[row].at;
    g_replaced[row] = {entry, g_entries[row].original, &usable_bytes};
    if (replace_entry(g_entries[row])) {
      real_allocator_moved(entry, g_entries[row].original);
    } else {
      g_replaced[row] = {};
      complete = false;
    }
  }
  return complete;
}

/// Notes the functions themselves, which the hooks in slots call.
void note_functions(const Allocator& allocator) {
  for (size_t row = 0; row < kCount; ++row) {
    const size_t family = family_of(allocator, row);
    if (family == kFamilyCount || is_plain_name(row) || g_replaced[row].entry != nullptr) continue;
    g_usable_bytes[family].init(
        reinterpret_cast<BlockSize::UsableSize>(allocator.usable_size[family]), false);
    const void* const at = allocator.functions[row].at;
    g_replaced[row] = {at, at, &g_usable_bytes[family]};
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
  const void* const used_malloc = find_in("", "malloc");
  for_each_allocator([&](const dl_phdr_info& object, Allocator& allocator) {
    const bool with_plain_names = holds(object, used_malloc);
    const bool complete = replace(allocator, with_plain_names);
    if (!complete) set_quality(GPUPEAK_Q_SECOND_MALLOC);
    // malloc's function may be known under another row's name.
    if (with_plain_names && complete) g_sees_programs_malloc = is_replaced(used_malloc);
  });
  return g_sees_programs_malloc;
}

size_t allocator_function_count() {
  return kCount;
}
const AllocatorFunction& allocator_function(size_t row) {
  return kFunctions[row];
}
ReplacedFunction& replaced_function(size_t row) {
  return g_replaced[row];
}
const void* allocator_hook(size_t row) {
  return reinterpret_cast<const void*>(kHooks[row]);
}

/// gpupeak_allocator_call is only called inside an AllocatorScope, which the exception leaves, too.
int gpupeak_allocator_left(int /*version*/, int actions, uint64_t /*exception_class*/,
                           void* /*exception*/, void* /*context*/) {
  constexpr int kCleanup = 2, kGoOn = 8;  // _UA_CLEANUP_PHASE, _URC_CONTINUE_UNWIND
  if ((actions & kCleanup) == 0) return kGoOn;
  t_flags.in_allocator = 0;
  const OpenCall* const call = t_call;
  t_call = nullptr;
  // operator new says only by an exception that there is no memory. What `call` refers to lies in
  // frames that are still there: they are unwound after this.
  if (call != nullptr) note_failure(call->function, call->arguments, ENOMEM, call->caller);
  return kGoOn;
}

}  // namespace gpupeak::preload
