#include "collector/symbols/rtti_reader.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "collector/symbols/class_graph.h"
#include "collector/symbols/loaded_image.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kNoFunction = 0;      // a slot that is empty
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

}  // namespace

class RttiReader::Steps {
 public:
  explicit Steps(const LoadedImage& image) : image_(image), graph_(image) {
    if (!classes().empty()) find_vtables();
  }

  RttiTable functions_at_most() const {
    std::vector<uint64_t> starts;
    for (const Vtable& vtable : vtables_)
      starts.insert(starts.end(), vtable.slots.begin(), vtable.slots.end());
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    RttiTable table;
    for (const uint64_t start : starts) {
      if (const auto range = image_.function_from(start))
        table.functions.push_back({.begin = range->begin, .end = range->end});
    }
    separate(&table.functions);
    return table;
  }

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
    while (!slots->empty() && slots->back() == kNoFunction) slots->pop_back();
  }

  std::optional<uint64_t> function_in(uint64_t address) const {
    const RelocatedWord* word = image_.word_at(address);
    if (word == nullptr) {
      return image_.plain_word(address) == 0U ? std::optional(kNoFunction) : std::nullopt;
    }
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
      empty += *function == kNoFunction ? 1 : 0;
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
      const auto empty = std::find(vtable.slots.begin(), vtable.slots.end(), kNoFunction);
      if (!derived_[vtable.index] || vtable.offset != 0) {
        vtable.slots.erase(empty, vtable.slots.end());
      }
    }
  }

  void collect_places() {
    for (const Vtable& vtable : vtables_) {
      const uint32_t layout =
          vtable.offset == 0 ? vtable.index : graph_.base_at(vtable.index, vtable.offset);
      const uint32_t length = layout == kNone ? UINT32_MAX : lengths_[layout];
      for (uint32_t slot = 0; slot < vtable.slots.size() && slot < length; ++slot) {
        const uint64_t function = vtable.slots[slot];
        if (function == kNoFunction || function == kElsewhere) continue;
        places_.push_back({function, vtable.index, layout, slot});
        if (vtable.offset == 0) own_slots_[vtable.index][slot] = function;
      }
    }
    std::stable_sort(
        places_.begin(), places_.end(), [](const VtablePlace& a, const VtablePlace& b) {
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
    separate(&table->functions);
  }

  /// Removes overlaps, which a damaged table may have.
  static void separate(std::vector<RttiTable::Function>* functions) {
    for (size_t i = 1; i < functions->size(); ++i) {
      RttiTable::Function& before = (*functions)[i - 1];
      before.end = std::min(before.end, (*functions)[i].begin);
    }
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
    if (base == kNone || std::find(owners.begin(), owners.end(), base) == owners.end()) {
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
      const bool all = std::all_of(owners.begin(), owners.end(), [&](uint32_t owner) {
        const std::vector<uint32_t> bases = graph_.ancestry(owner);
        return std::find(bases.begin(), bases.end(), candidate) != bases.end();
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

RttiReader::RttiReader(const LoadedImage& image)
    : steps_(image.words().empty() || image.function_starts().empty()
                 ? nullptr
                 : std::make_unique<Steps>(image)) {}

RttiReader::~RttiReader() = default;

RttiTable RttiReader::functions_at_most() const {
  return steps_ ? steps_->functions_at_most() : RttiTable();
}

RttiTable RttiReader::table() {
  return steps_ ? steps_->table() : RttiTable();
}

RttiTable read_rtti(Elf* elf) {
  const LoadedImage image(elf);
  return RttiReader(image).table();
}

const RttiTable::Function* RttiTable::function_at(uint64_t address) const {
  auto next = std::upper_bound(functions.begin(), functions.end(), address,
                               [](uint64_t value, const Function& f) { return value < f.begin; });
  if (next == functions.begin()) return nullptr;
  const Function& function = *std::prev(next);
  return address < function.end ? &function : nullptr;
}

}  // namespace gpupeak::collector
