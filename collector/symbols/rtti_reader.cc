// Reads classes and their virtual functions from a library that may have lost all its names.
// Exceptions and dynamic_cast need type_info, which relocations alone tell apart from other data.
// Nothing is guessed: what could be read in two ways gets no name.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "collector/symbols/loaded_image.h"
#include "collector/symbols/rtti_names.h"
#include "collector/text/function_names.h"
#include "collector/text/lists.h"
#include "collector/text/work.h"

namespace gpupeak::collector {
namespace {

// The classes of a library, read from their type_info: their names, their bases, and with which
// base's vtable each one's own begins. The vtables are found with it.

// Of a vtable: its slots begin behind the offset and the type_info.
constexpr uint64_t kAddressPoint = 2 * kWord;
constexpr int kMaxDepth = 64;  // of bases of bases: a damaged file may have a circle
constexpr uint32_t kMaxBases = 1024;
constexpr int64_t kVirtualBase = 1;  // flags of a base, Itanium C++ ABI 2.9.5
constexpr int kOffsetShift = 8;

constexpr std::array<std::string_view, 3> kForms{"N10__cxxabiv117__class_type_infoE",
                                                 "N10__cxxabiv120__si_class_type_infoE",
                                                 "N10__cxxabiv121__vmi_class_type_infoE"};

/// Whether two classes may have this name.
bool is_internal(std::string_view name) {
  return name.starts_with('*') || name.find("_GLOBAL__N_") != std::string_view::npos ||
         name.starts_with('Z');
}

bool is_class_name(std::string_view name) {
  if (name.starts_with('*')) name.remove_prefix(1);
  const bool begins = !name.empty() && (name[0] == 'N' || name[0] == 'S' || name[0] == 'Z' ||
                                        (name[0] >= '0' && name[0] <= '9'));
  return begins && std::ranges::all_of(name, [](char c) { return c > ' ' && c < 127; });
}

class ClassGraph {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Base {
    uint32_t index;
    int64_t offset;  ///< of the base in an object; without meaning for a virtual base
    bool is_virtual;
  };
  struct Class {
    std::string name;  ///< mangled
    std::vector<Base> bases;
    bool polymorphic = false;  ///< known to have a vtable
    uint32_t primary = kNone;
  };

  explicit ClassGraph(const LoadedImage& image) : image_(image) {
    find_own_forms();
    std::vector<std::pair<const RelocatedWord*, Form>> found;
    for (const RelocatedWord& word : image.words()) {
      const std::optional<Form> form = form_of(word);
      if (!form) continue;
      const RelocatedWord* name = image.word_at(word.at + kWord);
      if (name == nullptr || name->symbol != RelocatedWord::kNoSymbol) continue;
      const std::string_view text = image.text_at(name->value);
      if (!is_class_name(text)) continue;
      by_address_[word.at] = add(text, word.at);
      found.emplace_back(&word, *form);
    }
    for (const auto& [word, form] : found) read(*word, form);
  }

  const std::vector<Class>& classes() const { return classes_; }
  /// The class whose type_info a word points to; kNone: it points to none.
  uint32_t class_of(const RelocatedWord& word) const {
    if (word.symbol == RelocatedWord::kNoSymbol) return value_or(by_address_, word.value, kNone);
    const std::string_view name = image_.symbol_name(word.symbol);
    if (!name.starts_with("_ZTI") || word.value != 0) return kNone;
    return value_or(by_name_, name.substr(4), kNone);
  }
  /// Whether the address is part of a type_info.
  bool is_type_info(uint64_t address) const { return range_at(infos_, address) != nullptr; }
  /// Call this for each class that has a vtable, then settle().
  void set_polymorphic(uint32_t index) { classes_[index].polymorphic = true; }
  /// Finds the primary bases.
  /// Of several bases at the front at most one has a vtable; the others are empty. A base is taken
  /// to have one only if a vtable in this file proves it.
  void settle() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (Class& c : classes_) {
        const bool inherits = std::ranges::any_of(
            c.bases, [&](const Base& base) { return classes_[base.index].polymorphic; });
        if (c.polymorphic || !inherits) continue;
        changed = c.polymorphic = true;
      }
    }
    for (Class& c : classes_) {
      uint32_t count = 0;
      for (const Base& base : c.bases) {
        if (base.is_virtual || base.offset != 0 || !classes_[base.index].polymorphic) continue;
        c.primary = base.index;
        ++count;
      }
      if (count != 1) c.primary = kNone;
    }
  }
  /// The base whose part of an object begins at `offset`; kNone if that is not certain.
  uint32_t base_at(uint32_t index, int64_t offset) const {
    std::vector<uint32_t> found;
    collect_at(index, offset, 0, &found);
    return found.size() == 1 ? found[0] : kNone;
  }
  /// The class, then all its bases, each once.
  std::vector<uint32_t> ancestry(uint32_t index) const {
    std::vector<uint32_t> found{index};
    for (size_t i = 0; i < found.size(); ++i) {
      for (const Base& base : classes_[found[i]].bases) {
        if (std::ranges::find(found, base.index) == found.end()) found.push_back(base.index);
      }
    }
    return found;
  }

 private:
  enum class Form { kClass, kSingle, kSeveral };
  struct TypeInfo {
    uint64_t begin, end;
    uint32_t index;
  };

  /// For a library with its own copy of the C++ runtime. The runtime's classes describe themselves,
  /// so their vtables are found by their names. In other libraries a symbol names these vtables.
  void find_own_forms() {
    // Looks only at texts that words lead to, since a library has hundreds of megabytes, most of
    // them code for the GPU.
    std::array<uint64_t, kForms.size()> infos{};
    std::array<int, kForms.size()> counts{};
    uint64_t beginning = 0;  // the first eight bytes of all their names
    memcpy(&beginning, kForms[0].data(), sizeof beginning);
    for (const RelocatedWord& word : image_.words()) {
      if (word.symbol != RelocatedWord::kNoSymbol || image_.plain_word(word.value) != beginning)
        continue;
      const auto form = std::ranges::find(kForms, image_.text_at(word.value));
      if (form == kForms.end() || image_.word_at(word.at - kWord) == nullptr) continue;
      infos[static_cast<size_t>(form - kForms.begin())] = word.at - kWord;
      ++counts[static_cast<size_t>(form - kForms.begin())];
    }
    if (counts != std::array<int, kForms.size()>{1, 1, 1}) return;
    // Each of the three derives from one class, so their first words lead to the same vtable.
    const RelocatedWord* single = image_.word_at(infos[1]);
    if (single == nullptr || single->symbol != RelocatedWord::kNoSymbol) return;
    for (size_t i = 0; i < kForms.size(); ++i) {
      const RelocatedWord* first = image_.word_at(infos[i]);
      if (first == nullptr || first->value != single->value) return;
    }
    std::array<std::vector<uint64_t>, kForms.size()> points;
    for (const RelocatedWord& word : image_.words()) {
      if (word.symbol != RelocatedWord::kNoSymbol || !image_.is_constant(word.at)) continue;
      const auto info = std::ranges::find(infos, word.value);
      if (info == infos.end() || image_.word_at(word.at - kWord) != nullptr) continue;
      if (image_.plain_word(word.at - kWord) != 0U) continue;
      points[static_cast<size_t>(info - infos.begin())].push_back(word.at + kWord);
    }
    for (size_t i = 0; i < kForms.size(); ++i) {
      if (points[i].size() != 1) return;
    }
    if (points[1][0] != single->value) return;
    for (size_t i = 0; i < kForms.size(); ++i) own_forms_[points[i][0]] = static_cast<Form>(i);
  }
  std::optional<Form> form_of(const RelocatedWord& word) const {
    if (word.symbol == RelocatedWord::kNoSymbol) {
      const auto own = own_forms_.find(word.value);
      return own == own_forms_.end() ? std::nullopt : std::optional(own->second);
    }
    if (word.value != kAddressPoint) return std::nullopt;
    const std::string_view name = image_.symbol_name(word.symbol);
    if (!name.starts_with("_ZTV")) return std::nullopt;
    const auto form = std::ranges::find(kForms, name.substr(4));
    if (form == kForms.end()) return std::nullopt;
    return static_cast<Form>(form - kForms.begin());
  }
  void read(const RelocatedWord& word, Form form) {
    const uint32_t index = by_address_.at(word.at);
    uint64_t end = word.at + 2 * kWord;
    if (form != Form::kClass && classes_[index].bases.empty()) {
      read_bases(index, word.at, form, &end);
    } else if (form == Form::kSingle) {
      end += kWord;
    }
    infos_.push_back({word.at, end, index});
  }
  uint32_t add(std::string_view name, uint64_t address) {
    const auto next = static_cast<uint32_t>(classes_.size());
    // Internal classes with equal names are different ones. Address 0 is a class of another
    // library.
    if (address == 0 || !is_internal(name)) {
      const auto [known, added] = by_name_.try_emplace(name, next);
      if (!added) return known->second;
    }
    if (name.starts_with('*')) name.remove_prefix(1);
    classes_.emplace_back().name = name;
    return next;
  }
  uint32_t class_from(uint64_t word_address) {
    const RelocatedWord* word = image_.word_at(word_address);
    if (word == nullptr) return kNone;
    const uint32_t known = class_of(*word);
    if (known != kNone || word->symbol == RelocatedWord::kNoSymbol) return known;
    const std::string_view name = image_.symbol_name(word->symbol);
    return name.starts_with("_ZTI") && word->value == 0 ? add(name.substr(4), 0) : kNone;
  }
  void read_bases(uint32_t index, uint64_t address, Form form, uint64_t* end) {
    uint64_t at = address + 2 * kWord;
    if (form == Form::kSingle) {
      *end = at + kWord;
      const uint32_t base = class_from(at);
      if (base == kNone) return;
      classes_[index].bases.push_back({base, 0, false});
      return;
    }
    const uint32_t count = image_.plain_half(at + kWord / 2).value_or(0);
    if (count > kMaxBases) return;
    *end = at + kWord + count * 2 * kWord;
    std::vector<Base> bases;
    for (uint32_t i = 0; i < count; ++i) {
      at += kWord;
      const uint32_t base = class_from(at);
      at += kWord;
      const std::optional<uint64_t> flags = image_.plain_word(at);
      if (base == kNone || !flags) return;
      const auto signed_flags = static_cast<int64_t>(*flags);
      bases.push_back({base, signed_flags >> kOffsetShift, (signed_flags & kVirtualBase) != 0});
    }
    classes_[index].bases = std::move(bases);
  }
  void collect_at(uint32_t index, int64_t offset, int depth, std::vector<uint32_t>* found) const {
    if (depth > kMaxDepth) return;
    for (const Base& base : classes_[index].bases) {
      if (base.is_virtual || !classes_[base.index].polymorphic || offset < base.offset) continue;
      if (offset == base.offset) {
        if (std::ranges::find(*found, base.index) == found->end()) found->push_back(base.index);
      } else {
        collect_at(base.index, offset - base.offset, depth + 1, found);
      }
    }
  }

  const LoadedImage& image_;
  std::vector<Class> classes_;
  std::unordered_map<uint64_t, Form> own_forms_;  // by the first word of a type_info
  std::unordered_map<uint64_t, uint32_t> by_address_;
  std::unordered_map<std::string_view, uint32_t> by_name_;
  std::vector<TypeInfo> infos_;  // sorted by begin
};

constexpr uint64_t kEmptySlot = 0;       // a slot that is empty
constexpr uint64_t kElsewhere = 1;       // a function of another library
constexpr int64_t kMaxObject = 1 << 30;  // a larger offset within an object is other data
constexpr uint32_t kMaxSlots = 4096;
constexpr size_t kMaxEmptySlots = 2;  // the destructors of an abstract class
constexpr uint32_t kNone = ClassGraph::kNone;

struct Vtable {
  uint32_t index;  ///< of the class
  int64_t offset;  ///< of the part of an object that it is for
  uint64_t begin;  ///< where its slots lie
  std::vector<uint64_t> slots;
};

/// One place of a function: a slot of a class's vtable.
struct VtablePlace {
  uint64_t function;
  uint32_t index;   ///< of the class
  uint32_t layout;  ///< the class whose vtable counts the slot, or kNone
  uint32_t slot;
};

/// Reads in two steps; the first costs a small part of the second. The result is empty for a file
/// without type information, and for one that is no ELF file of x86-64 or aarch64.
class RttiReader {
 public:
  /// `image` must outlive this.
  explicit RttiReader(const LoadedImage& image) : image_(image), graph_(image) {
    if (!classes().empty()) find_vtables();
  }

  /// The functions that table() may name, and some others: the code is not looked at, so that what
  /// follows a vtable may be taken for a part of it. It only has where they begin and end.
  RttiTable functions_at_most() const {
    std::vector<uint64_t> starts;
    for (const Vtable& vtable : vtables_)
      starts.insert(starts.end(), vtable.slots.begin(), vtable.slots.end());
    std::ranges::sort(starts);
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    RttiTable table;
    for (const uint64_t start : starts) {
      if (const auto range = image_.function_from(start))
        table.functions.push_back({.begin = range->begin, .end = range->end});
    }
    separate(table.functions);
    return table;
  }

  /// Call it once; looks at all code.
  RttiTable table() {
    RttiTable table;
    table.version = image_.symbol_version();
    if (vtables_.empty()) return table;  // no need to look at all code
    end_vtables();
    if (vtables_.empty()) return table;
    for (const Vtable& vtable : vtables_) graph_.set_polymorphic(vtable.index);
    graph_.settle();
    bound_lengths();
    collect_places();
    name_functions(&table);
    add_classes(&table);
    return table;
  }

 private:
  const std::vector<ClassGraph::Class>& classes() const { return graph_.classes(); }

  /// A vtable has a word that leads to a type_info, behind one that is not relocated: the offset to
  /// the top.
  void find_vtables() {
    for (const RelocatedWord& word : image_.words()) {
      if (!image_.is_constant(word.at)) continue;
      const uint32_t index = graph_.class_of(word);
      if (index == kNone || graph_.is_type_info(word.at)) continue;
      if (image_.word_at(word.at - kWord) != nullptr) continue;
      const std::optional<uint64_t> to_top = image_.plain_word(word.at - kWord);
      const auto offset = -static_cast<int64_t>(to_top.value_or(1));
      if (offset < 0 || offset > kMaxObject || offset % static_cast<int64_t>(kWord) != 0) continue;
      std::vector<uint64_t> slots = slots_from(word.at + kWord);
      if (!slots.empty()) vtables_.push_back({index, offset, word.at + kWord, std::move(slots)});
    }
  }

  /// Ends a vtable at a word that something else refers to: from there on it may be a table of
  /// functions.
  void end_vtables() {
    const LoadedImage::References references = image_.references();
    for (Vtable& vtable : vtables_) {
      for (size_t slot = 1; slot < vtable.slots.size(); ++slot) {
        if (references.contains(vtable.begin + slot * kWord)) vtable.slots.resize(slot);
      }
      drop_empty_end(&vtable.slots);
    }
    std::erase_if(vtables_, [](const Vtable& vtable) { return vtable.slots.empty(); });
  }

  static void drop_empty_end(std::vector<uint64_t>* slots) {
    while (!slots->empty() && slots->back() == kEmptySlot) slots->pop_back();
  }

  std::optional<uint64_t> function_in(uint64_t address) const {
    const RelocatedWord* word = image_.word_at(address);
    if (word == nullptr)
      return image_.plain_word(address) == 0U ? std::optional(kEmptySlot) : std::nullopt;
    if (word->symbol != RelocatedWord::kNoSymbol) {
      const std::string_view name = image_.symbol_name(word->symbol);
      const bool data = name.starts_with("_ZTI") || name.starts_with("_ZTV");
      return data ? std::nullopt : std::optional(kElsewhere);
    }
    return image_.is_code(word->value) ? std::optional(word->value) : std::nullopt;
  }

  /// The functions from this address on, up to a word that is no function.
  std::vector<uint64_t> slots_from(uint64_t address) const {
    std::vector<uint64_t> slots;
    size_t empty = 0;
    for (uint64_t at = address; slots.size() < kMaxSlots; at += kWord) {
      const std::optional<uint64_t> function = function_in(at);
      if (!function || !image_.is_constant(at)) break;
      empty += *function == kEmptySlot ? 1 : 0;
      if (empty > kMaxEmptySlots) break;
      slots.push_back(*function);
    }
    drop_empty_end(&slots);
    return slots;
  }

  /// Bounds how many slots a class has: no more than any class whose vtable begins with its own.
  void bound_lengths() {
    lengths_.assign(classes().size(), UINT32_MAX);
    derived_.assign(classes().size(), false);
    std::vector<const Vtable*> main(classes().size());
    std::vector<bool> ambiguous(classes().size());
    for (const Vtable& vtable : vtables_) {
      if (vtable.offset != 0) continue;
      const Vtable*& first = main[vtable.index];
      if (first == nullptr) first = &vtable;
      const size_t common = std::min(first->slots.size(), vtable.slots.size());
      if (!std::equal(first->slots.begin(), first->slots.begin() + static_cast<ptrdiff_t>(common),
                      vtable.slots.begin())) {
        ambiguous[vtable.index] = true;
      }
      const auto length = static_cast<uint32_t>(vtable.slots.size());
      uint32_t index = vtable.index;
      for (int depth = 0; index != kNone && depth < 64; ++depth) {
        lengths_[index] = std::min(lengths_[index], length);
        if (index != vtable.index) derived_[index] = true;
        index = classes()[index].primary;
      }
    }
    // Empty slots count only where a derived class has them filled, which shows that they are
    // slots.
    for (Vtable& vtable : vtables_) {
      if (ambiguous[vtable.index]) vtable.slots.clear();
      const auto empty = std::ranges::find(vtable.slots, kEmptySlot);
      if (!derived_[vtable.index] || vtable.offset != 0)
        vtable.slots.erase(empty, vtable.slots.end());
    }
  }

  void collect_places() {
    for (const Vtable& vtable : vtables_) {
      const uint32_t layout =
          vtable.offset == 0 ? vtable.index : graph_.base_at(vtable.index, vtable.offset);
      const uint32_t length = layout == kNone ? UINT32_MAX : lengths_[layout];
      for (uint32_t slot = 0; slot < vtable.slots.size() && slot < length; ++slot) {
        const uint64_t function = vtable.slots[slot];
        if (function == kEmptySlot || function == kElsewhere) continue;
        places_.push_back({function, vtable.index, layout, slot});
        if (vtable.offset == 0) own_slots_[vtable.index][slot] = function;
      }
    }
    std::ranges::stable_sort(places_, [](const VtablePlace& a, const VtablePlace& b) {
      return a.function != b.function ? a.function < b.function : a.index < b.index;
    });
  }

  void name_functions(RttiTable* table) {
    for (size_t i = 0; i < places_.size();) {
      size_t end = i;
      while (end < places_.size() && places_[end].function == places_[i].function) ++end;
      if (const auto range = image_.function_from(places_[i].function)) {
        RttiTable::Function function = describe(i, end);
        function.begin = range->begin;
        function.end = range->end;
        table->functions.push_back(function);
      }
      i = end;
    }
    separate(table->functions);
  }

  /// Whether `layout`'s vtable begins with that of `base`.
  bool begins_with(uint32_t layout, uint32_t base) const {
    for (int depth = 0; layout != kNone && depth < 64; ++depth) {
      if (layout == base) return true;
      layout = classes()[layout].primary;
    }
    return false;
  }

  /// The most derived class with whose vtable all these vtables begin; kNone: there is none.
  uint32_t common_layout(size_t begin, size_t end) const {
    uint32_t layout = places_[begin].layout;
    for (int depth = 0; layout != kNone && depth < 64; ++depth) {
      const bool all = std::all_of(
          places_.begin() + static_cast<ptrdiff_t>(begin),
          places_.begin() + static_cast<ptrdiff_t>(end), [&](const VtablePlace& place) {
            return place.slot == places_[begin].slot && begins_with(place.layout, layout);
          });
      if (all) return layout;
      layout = classes()[layout].primary;
    }
    return kNone;
  }

  RttiTable::Function describe(size_t begin, size_t end) const {
    RttiTable::Function function;
    std::vector<uint32_t> owners;
    for (size_t i = begin; i < end; ++i) {
      if (owners.empty() || owners.back() != places_[i].index) owners.push_back(places_[i].index);
    }
    function.class_count = static_cast<uint32_t>(owners.size());
    function.slot = places_[begin].slot;
    function.layout = common_layout(begin, end);
    if (owners.size() == 1) {
      function.owner = owners[0];
      return function;
    }
    // If the class with whose vtable all begin has the function in that very slot, the others
    // inherit it. Otherwise the linker has folded functions that are alike.
    const uint32_t base = function.layout;
    if (base == kNone || std::ranges::find(owners, base) == owners.end()) {
      function.owner = ancestor_among(owners);
      if (function.owner != kNone) function.class_count = 1;
      return function;
    }
    const auto own = own_slots_.find(base);
    const bool has_it = own != own_slots_.end() && own->second.contains(function.slot) &&
                        own->second.at(function.slot) == places_[begin].function;
    if (has_it) {
      function.owner = base;
      function.class_count = 1;
    }
    return function;
  }

  /// The one of these classes that is a base of all others; kNone: there is none.
  uint32_t ancestor_among(const std::vector<uint32_t>& owners) const {
    constexpr size_t kMaxOwners = 64;  // folded functions are in thousands of classes
    if (owners.size() > kMaxOwners) return kNone;
    for (const uint32_t candidate : owners) {
      const bool all = std::ranges::all_of(owners, [&](uint32_t owner) {
        const std::vector<uint32_t> bases = graph_.ancestry(owner);
        return std::ranges::find(bases, candidate) != bases.end();
      });
      if (all) return candidate;
    }
    return kNone;
  }

  /// Adds the classes that a function's name may need, and no others.
  void add_classes(RttiTable* table) const {
    std::vector<uint32_t> numbers(classes().size(), kNone);
    std::vector<uint32_t> needed;
    const auto need = [&](uint32_t index) {
      if (index == kNone || numbers[index] != kNone) return;
      numbers[index] = static_cast<uint32_t>(needed.size());
      needed.push_back(index);
    };
    for (const RttiTable::Function& function : table->functions) {
      need(function.owner);
      need(function.layout);
    }
    std::vector<std::vector<uint32_t>> fronts;
    for (size_t i = 0; i < needed.size(); ++i) {
      const ClassGraph::Class& c = classes()[needed[i]];
      need(c.primary);
      fronts.emplace_back();
      if (c.primary != kNone) continue;
      for (const ClassGraph::Base& base : c.bases) {
        if (base.is_virtual || base.offset != 0) continue;
        need(base.index);
        fronts.back().push_back(base.index);
      }
    }
    const auto number = [&](uint32_t index) { return index == kNone ? kNone : numbers[index]; };
    for (size_t i = 0; i < needed.size(); ++i) {
      const ClassGraph::Class& c = classes()[needed[i]];
      for (uint32_t& front : fronts[i]) front = number(front);
      table->classes.push_back({c.name, number(c.primary), std::move(fronts[i])});
    }
    for (RttiTable::Function& function : table->functions) {
      function.owner = number(function.owner);
      function.layout = number(function.layout);
    }
  }

  const LoadedImage& image_;
  ClassGraph graph_;
  std::vector<Vtable> vtables_;
  std::vector<uint32_t> lengths_;  // the most slots of each class's vtable
  std::vector<bool> derived_;      // whether another class's vtable begins with it
  std::vector<VtablePlace> places_;
  std::unordered_map<uint32_t, std::map<uint32_t, uint64_t>> own_slots_;
};

constexpr int kMaxSteps = 256;  // from base to base; a damaged table may have a circle
constexpr std::string_view kDestructor = "~";

/// "a::B<int>" → "B".
std::string_view last_name(std::string_view name) {
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<' || name[i] == '(' || name[i] == '{') ++depth;
    if (name[i] == '>' || name[i] == ')' || name[i] == '}') --depth;
    if (depth == 0 && name[i] == ':') begin = i + 1;
  }
  const std::string_view last = name.substr(begin);
  return last.substr(0, last.find('<'));
}

}  // namespace

RttiTable read_rtti(Elf* elf) {
  const LoadedImage image(elf);
  return RttiReader(image).table();
}

const RttiTable::Function* RttiTable::function_at(uint64_t address) const {
  return range_at(functions, address);
}

/// The file, and the addresses to which its constant words lead.
struct LibraryRtti::Image {
  explicit Image(Elf* elf) : loaded(elf) {
    for (const RelocatedWord& word : loaded.words()) {
      if (word.symbol == RelocatedWord::kNoSymbol && loaded.is_constant(word.at))
        targets.push_back(word.value);
    }
    std::ranges::sort(targets);
  }
  bool leads_to_function_of(uint64_t address) const {
    const std::vector<uint64_t>& starts = loaded.function_starts();
    const auto next = std::upper_bound(starts.begin(), starts.end(), address);
    return next != starts.begin() && std::ranges::binary_search(targets, *std::prev(next));
  }
  RttiReader& reader() {
    if (!reader_) reader_.emplace(loaded);
    return *reader_;
  }

  LoadedImage loaded;
  std::vector<uint64_t> targets;  ///< sorted

 private:
  std::optional<RttiReader> reader_;
};

LibraryRtti::LibraryRtti(Elf* elf) : elf_(elf) {}
LibraryRtti::~LibraryRtti() = default;

LibraryRtti::Image& LibraryRtti::image() {
  if (!image_) image_ = std::make_unique<Image>(elf_);
  return *image_;
}

/// Asks what costs least first: most functions are in no table at all, and most libraries for the
/// GPU have tables of functions that are no vtables.
bool LibraryRtti::vtable_may_lead_to(uint64_t address) {
  if (!at_most_) {
    if (!image().leads_to_function_of(address)) return false;
    at_most_ = image().reader().functions_at_most();
  }
  return at_most_->function_at(address) != nullptr;
}

const RttiTable* LibraryRtti::table_for(uint64_t address) {
  if (!table_) {
    if (!vtable_may_lead_to(address)) return nullptr;
    ++work().rtti_scans;
    table_ = image().reader().table();
    image_.reset();
  }
  return &*table_;
}

RttiNames::RttiNames(const RttiTable& table, std::string_view library, std::string_view version,
                     const NameRules* rules)
    : table_(table) {
  if (rules == nullptr) return;
  const Version numbers = parse_version(version.empty() ? table.version : version);
  for (const ClassRule& rule : rules->classes) {
    if (rule.applies_to(library, numbers)) rules_.try_emplace(rule.name, &rule);
  }
}

const std::string& RttiNames::class_name(uint32_t index) const {
  const auto [entry, added] = class_names_.try_emplace(index);
  if (!added) return entry->second;
  const std::string& mangled = table_.classes[index].name;
  entry->second = cpp_demangle(mangled).value_or(mangled);
  return entry->second;
}

/// The name that a rule gives the slot, in the class itself or in a base whose vtable its own
/// begins with. If it is not certain which base at the front has a vtable, the one that a rule
/// names has it.
const std::string* RttiNames::slot_name(uint32_t layout, uint32_t slot, int* steps) const {
  if (layout == RttiTable::kNone || rules_.empty() || --*steps < 0) return nullptr;
  const auto rule = rules_.find(class_name(layout));
  if (rule != rules_.end()) {
    const std::vector<std::string>& slots = rule->second->slots;
    if (slot < slots.size()) return slots[slot].empty() ? nullptr : &slots[slot];
  }
  const RttiTable::Class& described = table_.classes[layout];
  if (described.primary != RttiTable::kNone) return slot_name(described.primary, slot, steps);
  const std::string* found = nullptr;
  for (const uint32_t front : described.fronts) {
    const std::string* name = slot_name(front, slot, steps);
    if (name != nullptr && found != nullptr) return nullptr;
    if (name != nullptr) found = name;
  }
  return found;
}

std::string RttiNames::name_of(const RttiTable::Function& function) const {
  const bool one = function.class_count == 1;
  const bool owned = one && function.owner != RttiTable::kNone;
  const uint32_t of = owned ? function.owner : function.layout;
  if (of == RttiTable::kNone) return "";
  const std::string& owner = class_name(of);
  int steps = kMaxSteps;
  const std::string* slot = slot_name(function.layout, function.slot, &steps);
  std::string name = fmt::format("[virtual {}]", function.slot);
  // A virtual base's, whose place varies.
  if (function.layout == RttiTable::kNone) name = "[virtual]";
  if (slot != nullptr) name = *slot == kDestructor ? fmt::format("~{}", last_name(owner)) : *slot;
  const std::string some = fmt::format("[one of {} classes]", function.class_count);
  return fmt::format("{}::{}{}", owner, name, owned ? "" : some);
}

}  // namespace gpupeak::collector
