#include "collector/symbols/rtti_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "collector/files/fresh_file.h"
#include "collector/symbols/loaded_image.h"
#include "collector/symbols/rtti_reader.h"
#include "collector/text/byte_pack.h"
#include "collector/text/rust_demangle.h"
#include "collector/text/work.h"

namespace gpupeak::collector {
namespace {

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
  if (described.primary != RttiTable::kNone) {
    return slot_name(described.primary, slot, steps);
  }
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

namespace {

// Change the number in kMagic whenever the reader finds more than before.
constexpr uint64_t kMostRttiBytes = 256 << 20;  // of all that are kept
constexpr std::string_view kMagic = "gpupeak rtti 4\n";
// Added to the identity if only functions_at_most() was kept.
constexpr const char* kAtMost = " at most";

}  // namespace

std::string pack_rtti(const RttiTable& table, std::string_view identity) {
  BytePacker out;
  out.text(identity);
  out.text(table.version);
  out.number(static_cast<uint32_t>(table.classes.size()));
  for (const RttiTable::Class& c : table.classes) {
    out.text(c.name);
    out.number(c.primary);
    out.number(static_cast<uint32_t>(c.fronts.size()));
    for (const uint32_t front : c.fronts) out.number(front);
  }
  out.number(static_cast<uint32_t>(table.functions.size()));
  for (const RttiTable::Function& f : table.functions) {
    out.number(f.begin);
    out.number(f.end);
    for (const uint32_t number : {f.owner, f.layout, f.slot, f.class_count}) out.number(number);
  }
  return seal(kMagic, out.bytes());
}

std::optional<RttiTable> unpack_rtti(std::string_view bytes, std::string_view identity) {
  const auto unsealed = unseal(kMagic, bytes);
  if (!unsealed) return std::nullopt;
  ByteUnpacker in(*unsealed);
  RttiTable table;
  if (in.text() != identity) return std::nullopt;
  table.version = in.text();
  table.classes.resize(in.count(3 * sizeof(uint32_t)));
  const auto count = static_cast<uint32_t>(table.classes.size());
  bool sound = true;
  const auto index = [&] {
    const auto value = in.number<uint32_t>();
    sound = sound && (value < count || value == RttiTable::kNone);
    return value;
  };
  for (RttiTable::Class& c : table.classes) {
    c.name = in.text();
    c.primary = index();
    c.fronts.resize(in.count(sizeof(uint32_t)));
    for (uint32_t& front : c.fronts) {
      front = index();
      sound = sound && front != RttiTable::kNone;
    }
  }
  table.functions.resize(in.count(2 * sizeof(uint64_t) + 4 * sizeof(uint32_t)));
  uint64_t last = 0;
  for (RttiTable::Function& f : table.functions) {
    f.begin = in.number<uint64_t>();
    f.end = in.number<uint64_t>();
    f.owner = index();
    f.layout = index();
    f.slot = in.number<uint32_t>();
    f.class_count = in.number<uint32_t>();
    sound = sound && f.begin >= last && f.end >= f.begin;
    last = f.end;
  }
  if (!sound || !in.at_end()) return std::nullopt;
  return table;
}

std::string rtti_identity(const FileState& file, std::string_view build_id) {
  BytePacker out;
  out.text(build_id);
  for (const uint64_t value : {file.device, file.inode, file.bytes}) out.number(value);
  for (const int64_t value : {file.modified_ns, file.changed_ns}) out.number(value);
  return out.bytes();
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

LibraryRtti::LibraryRtti(Elf* elf, std::string identity, size_t worth_keeping)
    : elf_(elf), identity_(std::move(identity)), worth_keeping_(worth_keeping) {}

LibraryRtti::~LibraryRtti() = default;

/// Where the table is kept; empty: it is not.
std::string LibraryRtti::cache_path(const std::string& identity) const {
  size_t bytes = 0;
  const bool read = elf_rawfile(elf_, &bytes) != nullptr;
  if (!read || identity_.empty() || bytes < worth_keeping_) return "";
  const std::string folder = cache_folder("rtti");
  return folder.empty() ? "" : cache_entry(folder, identity);
}

std::optional<RttiTable> LibraryRtti::kept(const std::string& identity) const {
  const std::string path = cache_path(identity);
  const auto bytes = path.empty() ? std::nullopt : read_cache_file(path);
  return bytes ? unpack_rtti(*bytes, identity) : std::nullopt;
}

void LibraryRtti::keep(const RttiTable& table, const std::string& identity) const {
  const std::string path = cache_path(identity);
  if (path.empty()) return;
  keep_in_cache(path, pack_rtti(table, identity), kMostRttiBytes);
}

bool LibraryRtti::take_kept() {
  if (!std::exchange(looked_for_, true)) {
    table_ = kept(identity_);
    if (!table_) at_most_ = kept(identity_ + kAtMost);
  }
  return table_.has_value();
}

LibraryRtti::Image& LibraryRtti::image() {
  if (!image_) image_ = std::make_unique<Image>(elf_);
  return *image_;
}

const RttiTable& LibraryRtti::table() {
  if (take_kept()) return *table_;
  ++work().rtti_scans;
  table_ = image().reader().table();
  image_.reset();
  keep(*table_, identity_);
  return *table_;
}

/// Asks what costs least first: most functions are in no table at all, and most libraries for the
/// GPU have tables of functions that are no vtables.
bool LibraryRtti::vtable_may_lead_to(uint64_t address) {
  if (!at_most_) {
    if (!image().leads_to_function_of(address)) return false;
    at_most_ = image().reader().functions_at_most();
    if (at_most_->function_at(address) == nullptr) keep(*at_most_, identity_ + kAtMost);
  }
  return at_most_->function_at(address) != nullptr;
}

const RttiTable* LibraryRtti::table_for(uint64_t address) {
  if (!take_kept() && !vtable_may_lead_to(address)) return nullptr;
  return &table();
}

}  // namespace gpupeak::collector
