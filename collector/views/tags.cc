#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "collector/analyze/attribution.h"
#include "collector/analyze/summary_parts.h"
#include "collector/text/sanitize.h"
#include "collector/text/title_text.h"
#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kNoPhase = "(no phase)";
constexpr std::string_view kUntrackable = "Untrackable";
constexpr std::string_view kUntrackableNote = "what the driver shows beyond what it handed out";

struct Entry {
  std::string tag, layer, site;
  uint64_t bytes = 0, count = 0;
};
GPUPEAK_FIELDS(Entry, tag, layer, site, bytes, count)

/// In which sort of phases the memory was allocated.
enum class Stretches {
  kProcess,  ///< only phases that every process has: start, main, exit
  kPhases,   ///< calls of libraries, and phases by rules
  kLayers    ///< phases that the program or its framework names: layers, nodes, ranges
};

struct TagTables {
  Stretches stretches = Stretches::kProcess;
  std::vector<TagShare> layers, tags;  ///< largest first; what has no name comes last
  std::vector<Entry> entries;          ///< largest first
  bool driver_counts_it = false;       ///< the driver has a figure for this scope
  std::optional<uint64_t> untrackable_bytes;
};

template <class T>
void sort_by_bytes(std::vector<T>& rows) {
  std::ranges::stable_sort(rows, std::greater(), &T::bytes);
}

std::vector<TagShare> shares(const std::map<std::string, TagShare>& by_name,
                             std::string_view last) {
  std::vector<TagShare> rows;
  rows.reserve(by_name.size());
  for (const auto& [name, share] : by_name) rows.push_back({name, share.bytes, share.count});
  sort_by_bytes(rows);
  std::stable_partition(rows.begin(), rows.end(),
                        [&](const TagShare& share) { return share.name != last; });
  return rows;
}

/// What the driver had in use beyond the peak: its largest reading, minus what other processes held
/// at the start, minus the peak. For a scope of several devices: the sum over those with readings.
std::optional<uint64_t> untrackable(const Profile& profile, ScopeId scope) {
  const int32_t device = profile.scope_info(scope).device;
  std::optional<uint64_t> used;
  for (const auto& [ordinal, ledger] : profile.replay().device().ledgers()) {
    if ((device >= 0 && device != ordinal) || !ledger.highest()) continue;
    const uint64_t others = ledger.others_at_start().value_or(0);
    used = used.value_or(0) + ledger.own_peak().value_or(ledger.highest()->used -
                                                         std::min(others, ledger.highest()->used));
  }
  if (!used) return std::nullopt;
  return *used - std::min(*used, profile.sum(scope).peak);
}

/// Whether phases of this source are named by the program or its framework: layers, nodes, ranges.
/// Calls of libraries are not.
bool is_layer(uint8_t source) {
  return source == GPUPEAK_PHASE_API || source == GPUPEAK_PHASE_NVTX || source == kPhaseNode;
}

Stretches stretches_of(const Replay& replay, PhaseId phase) {
  if (phase == 0) return Stretches::kProcess;
  const uint8_t source = replay.phases().phases()[phase].source;
  if (source == GPUPEAK_PHASE_AUTO) return Stretches::kProcess;
  return is_layer(source) ? Stretches::kLayers : Stretches::kPhases;
}

TagTables make_tables(Profile& profile, const Held& held) {
  std::map<std::string, TagShare> layers;
  std::map<std::string, TagShare> tags;
  std::map<std::tuple<std::string, std::string, std::string>, TagShare> entries;
  Stretches stretches = Stretches::kProcess;
  const auto add = [&](uint32_t tag_id, PhaseId phase, const std::string& site, const auto& part) {
    stretches = std::max(stretches, stretches_of(profile.replay(), phase));
    const std::string layer = profile.sites().phase_name(phase).value_or(std::string(kNoPhase));
    const std::string& tag = profile.tagger().name(tag_id);
    for (TagShare* share : {&layers[layer], &tags[tag], &entries[{tag, layer, site}]})
      add_part(*share, part);
  };
  const Replay& replay = profile.replay();
  for (const Contribution& part : held.parts.outside)
    add(profile.tagger().tag(part.group), replay.sites().context_of(part.group).phase,
        profile.sites().site_title(replay.sites().info(part.group).stack), part);
  for (const ArenaPart& part : held.parts.in_arenas) {
    add(profile.tagger().tag(*part.holder), part.holder->cause.phase,
        part.is_idle() ? idle_title(replay, *part.holder)
                       : arena_holder_title(replay, profile.sites(), *part.holder),
        part);
  }
  TagTables tables;
  tables.stretches = stretches;
  tables.layers = shares(layers, kNoPhase);
  tables.tags = shares(tags, kOthers);
  for (const auto& [key, share] : entries) {
    const auto& [tag, layer, site] = key;
    tables.entries.push_back({tag, layer, site, share.bytes, share.count});
  }
  sort_by_bytes(tables.entries);
  const ScopeInfo& info = profile.scope_info(held.scope);
  tables.driver_counts_it = held.is_peak() && info.kind == 0 && info.name.starts_with("device");
  if (tables.driver_counts_it) tables.untrackable_bytes = untrackable(profile, held.scope);
  return tables;
}

std::string rules_text(const RuleBook& rules) {
  if (rules.sets.empty()) return rules.tags.empty() ? "none" : "of the command line";
  return fmt::format("{}{}", fmt::join(rules.sets, ", "),
                     rules.automatic ? " (by the modules in the log)" : "");
}

class TagsText {
 public:
  TagsText(const Held& held, TextLines& text)
      : text_(text),
        style_(text.style()),
        whole_(held.bytes),
        what_(held.is_peak() ? "peak" : "all that was live"),
        beside_(style_.width >= kNarrow),
        names_((beside_ ? (width() - kGap) / 2 : width()) - size_ - kPercent - 2) {}

  /// Only one view if all memory was allocated in the process's own phases.
  void two_views(const TagTables& tables) {
    size_t longest = 0;
    for (const auto* shares : {&tables.layers, &tables.tags}) {
      for (const TagShare& share : *shares) longest = std::max(longest, display_width(share.name));
    }
    names_ = name_columns(names_, longest, style_);
    if (tables.stretches == Stretches::kProcess) return one_view("by data structure", tables.tags);
    const std::string_view first = tables.stretches == Stretches::kLayers ? "by layer" : "by phase";
    if (!beside_) {
      one_view(first, tables.layers);
      return one_view("by data structure", tables.tags);
    }
    add_cells(head(first), head("by data structure"));
    const size_t rows = std::max(tables.layers.size(), tables.tags.size());
    for (size_t i = 0; i < rows; ++i)
      add_cells(i < tables.layers.size() ? cell(tables.layers[i]) : "",
                i < tables.tags.size() ? cell(tables.tags[i]) : "");
    add_cells(sum(), sum());
  }

  void entries(const TagTables& tables, size_t top) {
    const std::string_view layer = tables.stretches == Stretches::kLayers ? "layer" : "phase";
    const TextTable table = text_.parts("n", {{"tag", name_, true}, {layer, name_, true}});
    table.head("site");
    const TopRows entries(tables.entries, top);
    for (const Entry& entry : entries.shown)
      table.row(text_.of_whole(entry.bytes, whole_, grouped(entry.count), entry.tag, entry.layer),
                entry.site);
    table.more(entries.others, text_.of_whole(entries.other_bytes, whole_, ""));
  }

  void untrackable(const std::optional<uint64_t>& bytes) {
    text_.wrap("{} {}  {}: {}", text_.cell(bytes), right("", kPercent), kUntrackable,
               bytes ? kUntrackableNote : "not measured");
  }

 private:
  static constexpr size_t kGap = 4, kPercent = 5, kName = 18, kNarrowName = 10;

  size_t width() const { return std::max<size_t>(text_.width(), 60); }
  void one_view(std::string_view name, const std::vector<TagShare>& shares) {
    text_.add(head(name));
    for (const TagShare& share : shares) text_.add(cell(share));
    text_.add(sum());
  }
  std::string sum() const {
    return right(fmt::format("sum {} = {}", text_.size(whole_), what_), half());
  }
  void add_cells(const std::string& one, const std::string& other) {
    const std::string line = left(one, half() + kGap) + other;
    text_.add(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  size_t half() const { return names_ + size_ + kPercent + 2; }
  std::string head(std::string_view name) const {
    return fmt::format("{} {} {}", left(name, names_), text_.cell("size"), right("%", kPercent));
  }
  std::string cell(const TagShare& share) const {
    return fmt::format("{} {} {}", name_cell(share.name, names_, style_), text_.cell(share.bytes),
                       right(percent(share.bytes, whole_), kPercent));
  }

  TextLines& text_;
  const TextStyle& style_;
  const uint64_t whole_;
  const std::string_view what_;
  const size_t size_ = size_columns(style_);
  const bool beside_;  ///< whether the two views stand beside each other
  const size_t name_ = beside_ ? kName : kNarrowName;
  size_t names_;  ///< width of a column of names
};

Json tags_json(const Profile& profile, const Held& held, const TagTables& tables, size_t top) {
  const TopRows entries(tables.entries, top);
  return with(view_json(profile, "gpupeak.tags/1", held),
              "rules, layers, tags, untrackable_bytes, entries, other_bytes",
              object("sets, automatic", profile.rules().sets, profile.rules().automatic),
              tables.layers, tables.tags, tables.untrackable_bytes, entries.shown,
              entries.other_bytes);
}

void write_csv(const TagTables& tables, std::ostream& out) {
  for (const TagShare& tag : tables.tags)
    out << fmt::format("{},{}\n", csv_field(tag.name), exact_mib(tag.bytes));
  if (tables.untrackable_bytes)
    out << fmt::format("{},{}\n", kUntrackable, exact_mib(*tables.untrackable_bytes));
}

}  // namespace

void write_tags(Profile& profile, const Held& held, size_t top, std::ostream& out,
                const ViewStyle& style) {
  const TagTables tables = make_tables(profile, held);
  if (style.is_json()) return write_line(tags_json(profile, held, tables, top), out);
  if (style.is_csv()) return write_csv(tables, out);
  TextLines text = view_text(profile, style);
  add_heading(profile, held, text);
  text.add("rules: " + rules_text(profile.rules()));
  if (tables.stretches == Stretches::kProcess)
    text.wrap(
        "by layer: the program names no phases. `gpupeak run --torch-modules` does it for "
        "PyTorch's modules, `--ort-nodes` for ONNX Runtime's nodes, gpupeak.h for any program");
  text.add("");
  TagsText tags(held, text);
  tags.two_views(tables);
  if (tables.driver_counts_it) tags.untrackable(tables.untrackable_bytes);
  text.add("\n" + bold("TOP ENTRIES", style));
  tags.entries(tables, top);
  text.write(out);
}

}  // namespace gpupeak::collector
