// Follows arenas that rules name (docs/rules.md, [[pool]]): the built-in rules, and the rules of
// the file that GPUPEAK_POOL_RULES names.
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/imports.h"
#include "base/loader.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/text.h"
#include "gpupeak/glob.h"
#include "hooks/adapters.h"
#include "hooks/arena_tables.h"
#include "life/process.h"
#include "track/arena_objects.h"

// The built-in rule files (preload/CMakeLists.txt). The command has them, too.
__asm__(
    ".pushsection .rodata\n"
    "gpupeak_arena_rules_begin:\n"
    ".incbin \"" GPUPEAK_POOL_RULES_FILE
    "\"\n"
    "gpupeak_arena_rules_end:\n"
    ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const char gpupeak_arena_rules_begin[];
extern "C" __attribute__((visibility("hidden"))) const char gpupeak_arena_rules_end[];

namespace gpupeak::preload {
namespace {

// Reads the [[pool]] parts of a rule file (docs/rules.md), which say which functions of which
// library hand out an arena's memory. HOOK-SAFE: allocates nothing.
//
// in    [[pool]]
//       name = "C pool"
//       library = "libcpool.so*"
//       allocate = "cpool_alloc"
//       …
// out   an ArenaRule: name "C pool", library "libcpool.so*", allocate_name "cpool_alloc" …
//
// This is a reader of our own, for two reasons: GPUPEAK_POOL_RULES also works with a bare
// LD_PRELOAD, where no other process can read the file first; and a TOML library allocates. It
// reads lines of `key = number` and `key = "text"`, which is all that these parts need, and passes
// over all other parts. `gpupeak run --pool-rules` checks the file by toml++ before the program
// starts.

struct ArenaRule {
  Text<48> name;
  Text<96> library;  ///< a glob for the file's name
  Text<512> type;    ///< the class, as type_info::name() has it; empty: exported functions
  size_t functions = kNoSlot;                                       ///< number of virtual functions
  size_t allocate = kNoSlot, free = kNoSlot, destructor = kNoSlot;  ///< slots of virtual functions
  Text<256> allocate_name, free_name;                               ///< exported functions
  /// Numbers of arguments.
  uint8_t size = kNoArgument, address = kNoArgument, given = kNoArgument, arena = kNoArgument;
};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

struct Lines {
  std::string_view rest;
  uint64_t number = 0;  ///< of the last line that next() gave

  std::string_view next() {
    const std::string_view line = head(rest, position(rest, '\n'));
    rest = tail(rest, line.size() + 1);
    ++number;
    return trimmed(line);
  }
};

/// Whether a line may end so: behind a value there may only be a comment.
bool ends(std::string_view rest) {
  rest = trimmed(rest);
  return rest.empty() || rest.front() == '#';
}

template <typename Number>
bool read_number(std::string_view value, uint32_t most, Number& number) {
  size_t digits = 0;
  uint32_t read = 0;
  for (; digits < value.size() && value[digits] >= '0' && value[digits] <= '9'; ++digits) {
    read = read * 10 + static_cast<uint32_t>(value[digits] - '0');
    if (read > most) return false;
  }
  number = static_cast<Number>(read);
  return digits > 0 && ends(tail(value, digits));
}

template <size_t kCapacity>
bool read_text(std::string_view value, Text<kCapacity>& text) {
  if (value.size() < 2 || (value.front() != '"' && value.front() != '\'')) return false;
  const std::string_view rest = tail(value, 1);
  const size_t end = position(rest, value.front());
  if (end == 0 || end == std::string_view::npos || end >= kCapacity || !ends(tail(rest, end + 1)))
    return false;
  const std::string_view found = head(rest, end);
  for (char c : found) {
    if (c == '\\' || static_cast<unsigned char>(c) < ' ') return false;
  }
  text = Text<kCapacity>(found);
  return true;
}

/// A slot's number or an exported function's name.
template <size_t kCapacity>
bool read_function(std::string_view value, size_t& slot, Text<kCapacity>& name) {
  constexpr uint32_t kMostSlots = 4095;
  return read_number(value, kMostSlots, slot) || read_text(value, name);
}

/// "ns::Class" as type_info::name() writes it: "N2ns5ClassE".
bool mangle(std::string_view name, Text<512>& type) {
  const bool nested = position(name, ':') != std::string_view::npos;
  type.clear();
  if (nested) type.add("N");
  while (!name.empty()) {
    const std::string_view part = head(name, position(name, ':'));
    for (char c : part) {
      const bool word =
          (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      if (!word) return false;
    }
    name = tail(name, part.size());
    if (part.empty() || (!name.empty() && !name.starts_with("::"))) return false;
    type.add(part.size()).add(part);
    name = tail(name, 2);
  }
  if (nested) type.add("E");
  return true;
}

/// Reads one key into the rule. nullptr: it was understood; else what was expected.
const char* read_key(std::string_view key, std::string_view value, ArenaRule& rule) {
  constexpr uint32_t kLastArgument = 5, kMostFunctions = 4096;
  const char* wanted = "a key of [[pool]]";
  bool understood = false;
  const auto take = [&](std::string_view of, const char* form, auto read) {
    if (key != of) return;
    wanted = form;
    understood = read();
  };
  take("name", "a name of 47 characters", [&] { return read_text(value, rule.name); });
  take("library", "a text", [&] { return read_text(value, rule.library); });
  take("type", "a text", [&] { return read_text(value, rule.type); });
  take("class", "a class's name such as \"ns::Class\"; of a template give 'type'", [&] {
    Text<512> name;
    return read_text(value, name) && mangle(name.view(), rule.type);
  });
  take("functions", "a number", [&] { return read_number(value, kMostFunctions, rule.functions); });
  take("allocate", "a slot or a name",
       [&] { return read_function(value, rule.allocate, rule.allocate_name); });
  take("free", "a slot or a name", [&] { return read_function(value, rule.free, rule.free_name); });
  take("destructor", "a slot", [&] { return read_number(value, kMostFunctions, rule.destructor); });
  const std::pair<const char*, uint8_t&> arguments[] = {
      {"size", rule.size}, {"address", rule.address}, {"given", rule.given}, {"pool", rule.arena}};
  for (const auto& [name, number] : arguments)
    take(name, "an argument, 0 to 5",
         [&, &to = number] { return read_number(value, kLastArgument, to); });
  return understood ? nullptr : wanted;
}

/// What the rule lacks; nullptr: nothing.
const char* lacks(const ArenaRule& rule) {
  if (rule.name.view().empty()) return "has no name";
  if (rule.library.view().empty()) return "has no library";
  if (rule.size == kNoArgument) return "has no size";
  if (rule.address == kNoArgument) return "has no address";
  const bool exported = !rule.allocate_name.view().empty() && !rule.free_name.view().empty();
  if (rule.type.view().empty())
    return exported ? nullptr : "has no class, nor names in allocate and free";
  if (rule.allocate == kNoSlot || rule.free == kNoSlot)
    return "has a class: allocate and free must be slots";
  if (rule.functions == kNoSlot) return "has no functions: how many virtual ones the class has";
  for (const size_t slot : {rule.allocate, rule.free}) {
    if (slot >= rule.functions) return "has a slot beyond its functions";
  }
  if (rule.destructor != kNoSlot && rule.destructor + 1 >= rule.functions)
    return "has a destructor beyond its functions";
  return nullptr;
}

/// Reads the file's next rule. False: there is none, or it cannot be used; in the latter case
/// `problem` says what is wrong and in which line.
bool next_rule(Lines& lines, ArenaRule& rule, Text<256>& problem) {
  while (!lines.rest.empty() && !lines.next().starts_with("[[pool]]")) {
  }
  if (lines.rest.empty()) return false;
  rule = ArenaRule{};
  const uint64_t begin = lines.number;
  while (!lines.rest.empty() && !trimmed(lines.rest).starts_with('[')) {  // the next part
    const std::string_view line = lines.next();
    if (line.empty() || line.front() == '#') continue;
    const size_t sign = position(line, '=');
    const std::string_view key = trimmed(head(line, sign));
    const char* const wanted = sign == std::string_view::npos
                                   ? "KEY = VALUE"
                                   : read_key(key, trimmed(tail(line, sign + 1)), rule);
    if (wanted == nullptr) continue;
    problem = Text<256>("line ", lines.number, ": '", head(key, 32), "' is not ", wanted);
    return false;
  }
  const char* const lack = lacks(rule);
  if (lack != nullptr) problem = Text<256>("line ", begin, ": the pool ", lack);
  return lack == nullptr;
}

/// A rule, and what it has replaced.
struct Rule {
  static constexpr size_t kMostLibraries = 4;

  ArenaRule says;
  bool built_in = false;
  ArenaMaker maker{};
  ArenaClass of{};
  uintptr_t libraries[kMostLibraries] = {};           ///< an address in each known library; 0: none
  uintptr_t real[kArenaFunctions] = {};               ///< exported functions
  std::atomic<const uintptr_t*> trampoline{nullptr};  ///< trampolines for `real`; nullptr: none

  bool exported() const { return says.type.view().empty(); }
};
constexpr size_t kMostRules = 16;
constinit Rule g_rules[kMostRules];
constinit size_t g_rule_count = 0;
std::span<Rule> rules() {
  return {g_rules, g_rule_count};
}

ArenaClass class_of(Rule& rule) {
  const ArenaRule& says = rule.says;
  return {.maker = &rule.maker,
          .slot = {says.allocate, kNoSlot, kNoSlot, says.free, says.destructor,
                   says.destructor == kNoSlot ? kNoSlot : says.destructor + 1},
          .size_at = says.size,
          .address_at = says.address,
          .given_at = says.given,
          .object_at = rule.exported() ? says.arena : uint8_t{0}};
}

void read_rules(std::string_view text, std::string_view origin, bool built_in) {
  Lines lines{text};
  while (!lines.rest.empty() && g_rule_count < kMostRules) {
    Rule& rule = g_rules[g_rule_count];
    Text<256> problem;
    if (next_rule(lines, rule.says, problem)) {
      rule.maker.shown = rule.says.name.c_str();
      rule.maker.fact = "pools.rule";
      rule.of = class_of(rule);
      rule.built_in = built_in;
      ++g_rule_count;
    } else if (!problem.view().empty()) {
      arenas_off(Text<512>(origin, ": ", problem));
    }
  }
}

/// Reads the user's rules, then the built-in ones: of two rules for one class the first counts. The
/// log says what cannot be read. Called once, by one thread.
void read_rules_of_process() {
  const std::string_view path = variable("GPUPEAK_POOL_RULES");
  if (!path.empty()) {
    constexpr size_t kMostBytes = 256 << 10;
    const Path file(path);
    char* const text = static_cast<char*>(map_pages(kMostBytes));
    const size_t bytes = text == nullptr ? 0 : read_file(file.c_str(), text, kMostBytes);
    if (bytes == 0) arenas_off(Text<512>("GPUPEAK_POOL_RULES: ", path, " cannot be read"));
    read_rules({text, bytes}, path, false);
    if (text != nullptr) unmap_pages(text, kMostBytes);
  }
  read_rules({gpupeak_arena_rules_begin,
              static_cast<size_t>(gpupeak_arena_rules_end - gpupeak_arena_rules_begin)},
             "built-in rules", true);
}

constexpr size_t kMost = 4096;
constinit HookedSlot g_import_slots[kMost];
constinit HookedSlots g_imports{g_import_slots, kMost};

/// Replaces the slots through which an object calls `name`, if they lead to `real`. False: there
/// are more slots than we have room for. One thread at a time.
bool replace_imports(const dl_phdr_info& object, const char* name, uintptr_t real,
                     uintptr_t trampoline) {
  bool fits = true;
  const auto wants = [name](const char* other) { return size_t{strcmp(other, name) == 0}; };
  for_each_import(object, wants, [&](size_t, const ImportSlot& slot) {
    if (*slot.at != trampoline && leads_to(slot, name, real))
      fits = g_imports.hook(slot, trampoline) && fits;
  });
  return fits;
}

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
  arenas_off(Text<512>(rule.says.name, " (", library, "): ", why));
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

/// The program itself has no name in the loader's list.
const char* program_name() {
  static char path[4096];
  const std::string_view file = program_file(path, sizeof path);
  return file.empty() ? "" : file_name(file.data());
}

size_t find_candidates(Loaded& loaded) {
  size_t count = 0;
  // Built-in rules are about libraries: then the program's own name need not be looked up.
  const bool are_built_in = std::ranges::all_of(rules(), &Rule::built_in);
  bool is_program = true;
  for_each_object([&](const dl_phdr_info& object) {
    loaded.unloads = object.dlpi_subs;
    ++loaded.objects;
    const bool is_left_out = is_program && are_built_in;
    const char* const library = is_left_out ? "" : is_program ? program_name() : file_name(object);
    is_program = false;
    for (Rule& rule : rules()) {
      const uintptr_t inside = begin_of(object);
      if (count == kMostCandidates || !glob_match(rule.says.library.view(), library) ||
          std::ranges::find(rule.libraries, inside) != std::end(rule.libraries)) {  // known
        continue;
      }
      g_candidates[count++] = {&rule, inside, Text<96>(library)};
    }
    return false;
  });
  return count;
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

/// Puts back all slots that lead to the rule's trampolines.
void put_back(Rule& rule) {
  const uintptr_t* const trampoline = rule.trampoline.exchange(nullptr);
  if (trampoline == nullptr) return;
  for (const HookedSlot& import : std::span(g_import_slots, g_imports.count)) {
    const bool is_its =
        import.hook == trampoline[kArenaAlloc] || import.hook == trampoline[kArenaFree];
    if (is_its && data_end(import.at) != nullptr) import.write(import.hook, import.was);
  }
}

/// Replaces the calls of objects that are complete and that were not there when we last looked.
void replace_new_calls(const Loaded& complete) {
  size_t number = 0;
  bool fits = true;
  for_each_object([&](const dl_phdr_info& object) {
    if (object.dlpi_subs != complete.unloads || number == complete.objects) return true;
    if (number++ < g_objects_seen) return false;
    for (Rule& rule : rules()) {
      if (replace_calls(rule, object)) continue;
      put_back(rule);
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

void look() {
  if (!g_is_read) {
    g_is_read = true;
    read_rules_of_process();
  }
  Loaded loaded;
  const size_t count = find_candidates(loaded);
  // If a rule is about exported functions, the calls of all libraries matter.
  const bool is_of_interest = count > 0 || std::ranges::any_of(rules(), &Rule::exported);
  if (is_of_interest && !wait_until_loaded()) return;
  for (const Candidate& found : std::span(g_candidates, count)) {
    const char* why = nullptr;
    if (!take_over(found, why)) continue;
    uintptr_t* const place = std::ranges::find(found.rule->libraries, uintptr_t{0});
    if (place != std::end(found.rule->libraries)) *place = found.inside;
    if (why == nullptr)
      arenas_on(found.rule->maker, Text<256>(found.rule->says.name, " of ", found.library));
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
  return std::ranges::any_of(rules(), [name](const Rule& rule) {
    return rule.exported() &&
           (rule.says.allocate_name.view() == name || rule.says.free_name.view() == name);
  });
}

void* replace_entry(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  if (found == nullptr) return nullptr;
  for (const Rule& rule : rules()) {
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
  for (Rule& rule : rules()) put_back(rule);
  g_looking.store(false, std::memory_order_release);
}

void forget_unloaded() {
  if (g_looking.exchange(true, std::memory_order_acquire)) return;
  for (Rule& rule : rules()) {
    for (uintptr_t& inside : rule.libraries) {
      if (inside != 0 && data_end(reinterpret_cast<const void*>(inside)) == nullptr) inside = 0;
    }
    const uintptr_t real = rule.real[kArenaAlloc];
    if (real != 0 && data_end(reinterpret_cast<const void*>(real)) == nullptr)
      rule.trampoline.store(nullptr, std::memory_order_release);
  }
  g_imports.forget_unloaded();
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
