// Follows arenas that rules name (docs/rules.md, [[pool]]): the built-in rules, and the rules of
// the file that GPUPEAK_POOL_RULES names.
#include <link.h>

#include <atomic>
#include <cstring>
#include <initializer_list>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/imports.h"
#include "base/loader.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "base/virtual_table.h"
#include "hooks/adapters.h"
#include "hooks/arena_rule_book.h"
#include "hooks/arena_tables.h"
#include "life/process.h"
#include "track/arena_objects.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kMost = 4096;
constinit HookedSlot g_imports[kMost];
constinit size_t g_count = 0;

/// Replaces the slots through which an object calls `name`, if they lead to `real`. False: there
/// are more slots than we have room for. One thread at a time.
bool replace_imports(const dl_phdr_info& object, const char* name, uintptr_t real,
                     uintptr_t trampoline) {
  bool fits = true;
  const auto wants = [name](const char* other) { return size_t{strcmp(other, name) == 0}; };
  for_each_import(object, wants, [&](size_t, const ImportSlot& slot) {
    if (*slot.at == trampoline || !leads_to(slot, name, real)) return;
    if (g_count == kMost) {
      fits = false;
      return;
    }
    const HookedSlot import{slot.at, trampoline, *slot.at, slot.read_only};
    if (import.write(import.was, trampoline)) g_imports[g_count++] = import;
  });
  return fits;
}

/// Puts back all slots that lead to `trampoline`.
void put_back_imports(uintptr_t trampoline) {
  for (size_t i = 0; i < g_count; ++i) {
    const HookedSlot& import = g_imports[i];
    if (import.hook == trampoline && data_end(import.at) != nullptr)
      import.write(trampoline, import.was);
  }
}

void forget_unloaded_imports() {
  size_t kept = 0;
  for (size_t i = 0; i < g_count; ++i) {
    if (data_end(g_imports[i].at) != nullptr) g_imports[kept++] = g_imports[i];
  }
  g_count = kept;
}

using Rule = ArenaRuleState;
constinit bool g_is_read = false;

/// One thread looks at a time, and the others do not wait for it: the loader may wait for a thread
/// that waits for us.
constinit std::atomic<bool> g_looking{false};
constinit uint64_t g_unloads_seen = 0;
/// How many objects, from the beginning of the loader's list, have had their calls replaced.
constinit size_t g_objects_seen = 0;

/// The loader's list at one time: how many libraries were ever unloaded, and its length.
struct Loaded {
  uint64_t unloads = 0;
  size_t objects = 0;
};

constexpr const char* kNoClass = "its class was not found";

/// Logs why a rule is not used for a library. Says nothing if the library lacks the class of a
/// built-in rule: it may be built without.
void off(const Rule& rule, const char* library, const char* why) {
  if (rule.built_in && why == kNoClass) return;
  Text<512> text;
  text.add(rule.says.name.view()).add(" (").add(library).add("): ").add(why);
  arenas_off(text.view());
}

void on(Rule& rule, const char* library) {
  Text<256> text;
  text.add(rule.says.name.view()).add(" of ").add(library);
  arenas_on(rule.maker, text.view());
}

/// An address in the object; 0: it has none.
uintptr_t begin_of(const dl_phdr_info& object) {
  return object.dlpi_phnum == 0 ? 0 : object.dlpi_addr + object.dlpi_phdr[0].p_vaddr;
}

/// A library that a rule is about, as it was when the loader's list was read.
struct Candidate {
  Rule* rule = nullptr;
  uintptr_t inside = 0;
  Text<96> library;
};
constexpr size_t kMostCandidates = 16;
constinit Candidate g_candidates[kMostCandidates];

bool is_new(const Rule& rule, uintptr_t inside) {
  for (const uintptr_t known : rule.libraries) {
    if (known == inside) return false;
  }
  return true;
}

/// The program itself has no name in the loader's list.
const char* program_name() {
  static char path[4096];
  const long bytes = sys::readlink("/proc/self/exe", path, sizeof path - 1);
  path[bytes > 0 ? bytes : 0] = 0;
  return file_name(path);
}

/// Whether a rule may be about the program itself. Built-in rules are about libraries, so the names
/// of most programs need not be looked up.
bool may_be_of_program() {
  for (size_t i = 0; i < g_arena_rule_count; ++i) {
    if (!g_arena_rules[i].built_in) return true;
  }
  return false;
}

size_t find_candidates(Loaded& loaded) {
  size_t count = 0;
  bool is_program = true;
  for_each_object([&](const dl_phdr_info& object) {
    loaded.unloads = object.dlpi_subs;
    ++loaded.objects;
    const bool is_left_out = is_program && !may_be_of_program();
    const char* const library = is_left_out ? "" : is_program ? program_name() : file_name(object);
    is_program = false;
    for (size_t i = 0; i < g_arena_rule_count; ++i) {
      Rule& rule = g_arena_rules[i];
      const uintptr_t inside = begin_of(object);
      if (count == kMostCandidates || !fits_glob(rule.says.library.view(), library) ||
          !is_new(rule, inside)) {
        continue;
      }
      g_candidates[count].rule = &rule;
      g_candidates[count].inside = inside;
      g_candidates[count].library.clear();
      g_candidates[count++].library.add(library);
    }
    return false;
  });
  return count;
}

void remember(Rule& rule, uintptr_t inside) {
  for (uintptr_t& known : rule.libraries) {
    if (known == 0) {
      known = inside;
      return;
    }
  }
}

/// Replaces functions of the rule's class. nullptr: done; else why not.
const char* take_over_class(Rule& rule, uintptr_t inside) {
  const VirtualTable table =
      find_virtual_table(reinterpret_cast<const void*>(inside), rule.says.type.c_str());
  if (table.slots == nullptr) return kNoClass;
  if (table.count != rule.says.functions)
    return "its class has another number of virtual functions";
  return take_over_arena_tables(rule.of, &table, 1) ? nullptr
                                                    : "its table of functions cannot be written";
}

/// The same for exported functions. Callers' slots are replaced later.
const char* take_over_functions(Rule& rule, const dl_phdr_info& object) {
  if (rule.trampoline.load(std::memory_order_relaxed) != nullptr) return "a second copy of it";
  const auto find = [&](const Text<256>& name) {
    return reinterpret_cast<uintptr_t>(find_symbol(object, name.c_str()).at);
  };
  rule.real[kArenaAlloc] = find(rule.says.allocate_name);
  rule.real[kArenaFree] = find(rule.says.free_name);
  if (rule.real[kArenaAlloc] == 0 || rule.real[kArenaFree] == 0)
    return "it does not export its functions";
  const uintptr_t* const trampoline = trampolines_for(rule.of, rule.real);
  if (trampoline == nullptr) return "more pools than are followed";
  rule.trampoline.store(trampoline, std::memory_order_release);
  g_objects_seen = 0;  // objects that are loaded already may call it
  return nullptr;
}

/// Takes over a candidate. False: its library is gone. The loader's list cannot change meanwhile,
/// so the library stays.
bool take_over(const Candidate& found, const char*& why) {
  bool there = false;
  for_each_object([&](const dl_phdr_info& object) {
    there = begin_of(object) == found.inside;
    if (there && found.rule->exported())
      why = take_over_functions(*found.rule, object);
    else if (there)
      why = take_over_class(*found.rule, found.inside);
    return there;
  });
  return there;
}

/// Replaces an object's calls of the rule's functions. False: not all could be.
bool replace_calls(const Rule& rule, const dl_phdr_info& object) {
  const uintptr_t* const trampoline = rule.trampoline.load(std::memory_order_relaxed);
  return trampoline == nullptr ||
         (replace_imports(object, rule.says.allocate_name.c_str(), rule.real[kArenaAlloc],
                          trampoline[kArenaAlloc]) &&
          replace_imports(object, rule.says.free_name.c_str(), rule.real[kArenaFree],
                          trampoline[kArenaFree]));
}

void put_back(Rule& rule) {
  const uintptr_t* const trampoline = rule.trampoline.exchange(nullptr);
  if (trampoline == nullptr) return;
  put_back_imports(trampoline[kArenaAlloc]);
  put_back_imports(trampoline[kArenaFree]);
}

/// Replaces the calls of objects that are complete and that were not there when we last looked.
void replace_new_calls(const Loaded& complete) {
  size_t number = 0;
  bool fits = true;
  for_each_object([&](const dl_phdr_info& object) {
    if (object.dlpi_subs != complete.unloads || number == complete.objects) return true;
    if (number++ < g_objects_seen) return false;
    for (size_t i = 0; i < g_arena_rule_count; ++i) {
      if (replace_calls(g_arena_rules[i], object)) continue;
      put_back(g_arena_rules[i]);
      fits = false;
    }
    return false;
  });
  g_objects_seen = number;
  if (!fits) arenas_off("functions of a pool are called from more places than are followed");
}

/// Handles of libraries in which the program has looked up functions. To look at libraries takes a
/// lock of the loader's, which a forked child may find taken. So it is done once for each handle. A
/// hash of the handle gives its place; two handles with one place are looked at again and again.
constexpr size_t kHandles = 1024;
constinit std::atomic<uintptr_t> g_handles[kHandles];  // + 1; 0: none

bool was_seen(const void* handle) {
  const uintptr_t key = reinterpret_cast<uintptr_t>(handle) + 1;
  return g_handles[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 54].exchange(key) == key;
}

/// Whether a rule is about exported functions: then the calls of all libraries matter.
bool has_exported() {
  for (size_t i = 0; i < g_arena_rule_count; ++i) {
    if (g_arena_rules[i].exported()) return true;
  }
  return false;
}

void look() {
  if (!g_is_read) {
    g_is_read = true;
    read_arena_rules();
  }
  Loaded loaded;
  const size_t count = find_candidates(loaded);
  const bool is_of_interest = count > 0 || has_exported();
  if (is_of_interest && !wait_until_loaded()) return;
  for (size_t i = 0; i < count; ++i) {
    const Candidate& found = g_candidates[i];
    const char* why = nullptr;
    if (!take_over(found, why)) continue;
    remember(*found.rule, found.inside);
    if (why == nullptr)
      on(*found.rule, found.library.c_str());
    else
      off(*found.rule, found.library.c_str(), why);
  }
  if (loaded.unloads != g_unloads_seen) {
    g_unloads_seen = loaded.unloads;
    g_objects_seen = 0;  // objects behind one that is gone have moved up in the list
  }
  if (is_of_interest) replace_new_calls(loaded);
}

/// Takes over the arenas of newly loaded libraries, if this is the first look-up with this handle
/// of the loader's. It waits for the loader, so it is called only where the program itself would.
void take_over_rule_arenas(const void* handle) {
  if (!environment().arenas || !may_record() || was_seen(handle)) return;
  if (g_looking.exchange(true, std::memory_order_acquire)) return;
  look();
  g_looking.store(false, std::memory_order_release);
}

/// Whether a rule is about an exported function of this name.
bool is_entry(const char* name) {
  for (size_t i = 0; i < g_arena_rule_count; ++i) {
    const Rule& rule = g_arena_rules[i];
    if (rule.exported() &&
        (rule.says.allocate_name.view() == name || rule.says.free_name.view() == name))
      return true;
  }
  return false;
}

void* replace_entry(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  for (size_t i = 0; found != nullptr && i < g_arena_rule_count; ++i) {
    const Rule& rule = g_arena_rules[i];
    const uintptr_t* const trampoline = rule.trampoline.load(std::memory_order_acquire);
    if (trampoline == nullptr) continue;
    for (const ArenaFunction function : {kArenaAlloc, kArenaFree}) {
      if (reinterpret_cast<uintptr_t>(found) == rule.real[function])
        return reinterpret_cast<void*>(trampoline[function]);
    }
  }
  return found;
}

void put_back_all() {
  if (g_looking.exchange(true, std::memory_order_acquire)) return;
  for (size_t i = 0; i < g_arena_rule_count; ++i) put_back(g_arena_rules[i]);
  g_looking.store(false, std::memory_order_release);
}

void forget_unloaded() {
  if (g_looking.exchange(true, std::memory_order_acquire)) return;
  for (size_t k = 0; k < g_arena_rule_count; ++k) {
    Rule& rule = g_arena_rules[k];
    for (uintptr_t& inside : rule.libraries) {
      if (inside != 0 && data_end(reinterpret_cast<const void*>(inside)) == nullptr) inside = 0;
    }
    const uintptr_t real = rule.real[kArenaAlloc];
    if (real != 0 && data_end(reinterpret_cast<const void*>(real)) == nullptr)
      rule.trampoline.store(nullptr, std::memory_order_release);
  }
  forget_unloaded_imports();
  for (std::atomic<uintptr_t>& handle : g_handles) handle.store(0);
  g_looking.store(false, std::memory_order_release);
}

/// Replaced functions stay replaced, and no more libraries are looked at, since a thread of the
/// parent may have held a lock of the loader's.
void reset_in_child() {
  g_looking.store(true, std::memory_order_relaxed);
}

}  // namespace

const Adapter kRulesAdapter{.of = "what rule files describe",
                            .wants = is_entry,
                            .replace = replace_entry,
                            .look = take_over_rule_arenas,
                            .forget_unloaded = forget_unloaded,
                            .reset_in_child = reset_in_child,
                            .put_back = put_back_all};

}  // namespace gpupeak::preload
