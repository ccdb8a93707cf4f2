#include "collector/symbols/class_graph.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace gpupeak::collector {
namespace {

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
  return begins && std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 127; });
}

}  // namespace

ClassGraph::ClassGraph(const LoadedImage& image) : image_(image) {
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

/// For a library with its own copy of the C++ runtime. The runtime's classes describe themselves,
/// so their vtables are found by their names. In other libraries a symbol names these vtables.
void ClassGraph::find_own_forms() {
  // Looks only at texts that words lead to, since a library has hundreds of megabytes, most of them
  // code for the GPU.
  std::array<uint64_t, kForms.size()> infos{};
  std::array<int, kForms.size()> counts{};
  uint64_t beginning = 0;  // the first eight bytes of all their names
  memcpy(&beginning, kForms[0].data(), sizeof beginning);
  for (const RelocatedWord& word : image_.words()) {
    if (word.symbol != RelocatedWord::kNoSymbol || image_.plain_word(word.value) != beginning)
      continue;
    const auto form = std::find(kForms.begin(), kForms.end(), image_.text_at(word.value));
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
    const auto info = std::find(infos.begin(), infos.end(), word.value);
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

std::optional<ClassGraph::Form> ClassGraph::form_of(const RelocatedWord& word) const {
  if (word.symbol == RelocatedWord::kNoSymbol) {
    const auto own = own_forms_.find(word.value);
    return own == own_forms_.end() ? std::nullopt : std::optional(own->second);
  }
  if (word.value != kAddressPoint) return std::nullopt;
  const std::string_view name = image_.symbol_name(word.symbol);
  if (!name.starts_with("_ZTV")) return std::nullopt;
  const auto form = std::find(kForms.begin(), kForms.end(), name.substr(4));
  if (form == kForms.end()) return std::nullopt;
  return static_cast<Form>(form - kForms.begin());
}

uint32_t ClassGraph::add(std::string_view name, uint64_t address) {
  const auto next = static_cast<uint32_t>(classes_.size());
  // Internal classes with equal names are different ones. Address 0 is a class of another library.
  if (address == 0 || !is_internal(name)) {
    const auto [known, added] = by_name_.try_emplace(name, next);
    if (!added) return known->second;
  }
  if (name.starts_with('*')) name.remove_prefix(1);
  classes_.emplace_back().name = name;
  return next;
}

void ClassGraph::read(const RelocatedWord& word, Form form) {
  const uint32_t index = by_address_.at(word.at);
  uint64_t end = word.at + 2 * kWord;
  if (form != Form::kClass && classes_[index].bases.empty()) {
    read_bases(index, word.at, form, &end);
  } else if (form == Form::kSingle) {
    end += kWord;
  }
  infos_.push_back({word.at, end, index});
}

uint32_t ClassGraph::class_from(uint64_t word_address) {
  const RelocatedWord* word = image_.word_at(word_address);
  if (word == nullptr) return kNone;
  const uint32_t known = class_of(*word);
  if (known != kNone || word->symbol == RelocatedWord::kNoSymbol) return known;
  const std::string_view name = image_.symbol_name(word->symbol);
  return name.starts_with("_ZTI") && word->value == 0 ? add(name.substr(4), 0) : kNone;
}

void ClassGraph::read_bases(uint32_t index, uint64_t address, Form form, uint64_t* end) {
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

uint32_t ClassGraph::class_of(const RelocatedWord& word) const {
  if (word.symbol == RelocatedWord::kNoSymbol) {
    const auto known = by_address_.find(word.value);
    return known == by_address_.end() ? kNone : known->second;
  }
  const std::string_view name = image_.symbol_name(word.symbol);
  if (!name.starts_with("_ZTI") || word.value != 0) return kNone;
  const auto known = by_name_.find(name.substr(4));
  return known == by_name_.end() ? kNone : known->second;
}

bool ClassGraph::is_type_info(uint64_t address) const {
  auto next =
      std::upper_bound(infos_.begin(), infos_.end(), address,
                       [](uint64_t value, const TypeInfo& info) { return value < info.begin; });
  return next != infos_.begin() && address < std::prev(next)->end;
}

/// Of several bases at the front at most one has a vtable; the others are empty. A base is taken to
/// have one only if a vtable in this file proves it.
void ClassGraph::settle() {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Class& c : classes_) {
      const bool inherits = std::any_of(c.bases.begin(), c.bases.end(), [&](const Base& base) {
        return classes_[base.index].polymorphic;
      });
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

void ClassGraph::collect_at(uint32_t index, int64_t offset, int depth,
                            std::vector<uint32_t>* found) const {
  if (depth > kMaxDepth) return;
  for (const Base& base : classes_[index].bases) {
    if (base.is_virtual || !classes_[base.index].polymorphic || offset < base.offset) continue;
    if (offset == base.offset) {
      if (std::find(found->begin(), found->end(), base.index) == found->end()) {
        found->push_back(base.index);
      }
    } else {
      collect_at(base.index, offset - base.offset, depth + 1, found);
    }
  }
}

uint32_t ClassGraph::base_at(uint32_t index, int64_t offset) const {
  std::vector<uint32_t> found;
  collect_at(index, offset, 0, &found);
  return found.size() == 1 ? found[0] : kNone;
}

std::vector<uint32_t> ClassGraph::ancestry(uint32_t index) const {
  std::vector<uint32_t> found{index};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const Base& base : classes_[found[i]].bases) {
      if (std::find(found.begin(), found.end(), base.index) == found.end()) {
        found.push_back(base.index);
      }
    }
  }
  return found;
}

}  // namespace gpupeak::collector
