#include <fmt/format.h>

#include <algorithm>

#include "collector/summary/run_text.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_lines.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kNameColumns = 22;
constexpr size_t kTimeColumns = 9;
constexpr size_t kNodeRows = 12;
const std::string kUnknown = "–";

/// What a side has of a phase's instances.
struct Figure {
  std::string_view name;
  std::string (*text)(const PhaseInstanceSide& side, bool ended, const TextStyle& style);
};
using Side = PhaseInstanceSide;
constexpr Figure kFigures[] = {
    {"entry", [](const Side& s, bool, const TextStyle& t) { return size_text(s.start_bytes, t); }},
    {"peak", [](const Side& s, bool, const TextStyle& t) { return size_text(s.peak_bytes, t); }},
    {"exit", [](const Side& s, bool ended,
                const TextStyle& t) { return ended ? size_text(s.end_bytes, t) : kUnknown; }},
    {"kept", [](const Side& s, bool, const TextStyle& t) { return signed_size(s.kept_bytes, t); }},
    {"allocs", [](const Side& s, bool, const TextStyle&) {
       return s.alloc_count ? grouped(*s.alloc_count) : kUnknown;
     }}};

class PhaseTable {
 public:
  PhaseTable(const Summary& summary, const TextStyle& style)
      : summary_(summary),
        style_(style),
        text_(style, 2),
        columns_(size_columns(style)),
        table_(phase_rows(summary, kNodeRows)) {
    size_t longest = 0;
    for (const PhaseSummary& phase : summary.phases) {
      device_ = std::max(device_, metric(phase.metrics, "device.peak_bytes").value_or(0));
      host_ = std::max(host_, metric(phase.metrics, "host.peak_bytes").value_or(0));
    }
    for (const auto& [phase, instances] : table_.rows)
      longest = std::max(longest, display_width(name_of(*phase, *instances)));
    names_ = name_columns(kNameColumns, longest, style);
    choose_figures();
  }

  void write(std::ostream& out) {
    text_.add(bold("PHASES", style_));
    text_.wrap(fmt::format(
        "peak: with what was live before; kept: of the phase's own allocations, live at its end{}",
        kept_note(table_)));
    std::string head(names_ + kTimeColumns + 1, ' ');
    if (device_ > 0) head += "   " + left("device memory", side_columns() - 3);
    text_.wrap(head + (host_ > 0 ? "   host memory" : ""));
    phases();
    if (table_.nodes_left_out > 0)
      text_.wrap("… {} more nodes, which hold less: --csv has them",
                 grouped(table_.nodes_left_out));
    outside();
    calls();
    growth();
    sites();
    text_.write(out);
  }

 private:
  /// Drops figures from the end of the list until a line fits the width.
  void choose_figures() {
    const size_t sides = (device_ > 0) + (host_ > 0);
    while (!style_.whole_lines && figures_.size() > 1 &&
           names_ + 1 + kTimeColumns + sides * side_columns() > text_.width()) {
      figures_.pop_back();
    }
    std::ranges::sort(figures_);  // in the order of kFigures
  }
  size_t side_columns() const { return 2 + figures_.size() * (columns_ + 1); }

  static std::string indent_of(const PhaseSummary& phase) {
    return std::string(static_cast<size_t>(std::min(phase.depth, 8)) * 2, ' ');
  }
  static std::string name_of(const PhaseSummary& phase, const PhaseInstances& instances) {
    return indent_of(phase) + instances_text(phase, instances) + (instances.alike ? "" : " ≠");
  }

  /// A side without memory has no columns.
  void phases() {
    std::vector<TextColumn> columns{{"phase", names_, true}, {"time", kTimeColumns}};
    for (const uint64_t most : {device_, host_}) {
      for (const Figure* figure : figures_)
        if (most > 0) columns.push_back({figure->name, columns_ + (figure == figures_[0] ? 2 : 0)});
    }
    const TextTable table(text_, std::move(columns));
    table.head();
    for (const auto& [phase, instances] : table_.rows) {
      TextTable::Cells cells{name_of(*phase, *instances), duration(instances->open_ns)};
      const bool ended = instances->end_ns.has_value();
      const auto add = [&](const std::optional<PhaseInstanceSide>& side) {
        for (const Figure* figure : figures_)
          cells.push_back(side ? figure->text(*side, ended, style_) : kUnknown);
      };
      if (device_ > 0) add(instances->device);
      if (host_ > 0) add(instances->host);
      table.line(cells);
    }
  }

  /// What was allocated outside of all phases. With it the outermost phases add up to what was live
  /// at the end.
  void outside() {
    const auto text = [&](const char* name) { return text_.size(metric(summary_.metrics, name)); };
    text_.wrap("live at exit: device {}, host {}; of it allocated outside of all phases: {}, {}",
               text("device.live_bytes"), text("host.live_bytes"),
               text("device.outside_phases.live_bytes"), text("host.outside_phases.live_bytes"));
  }

  void calls() {
    const std::vector<std::string> lines = calls_lines(summary_, style_);
    if (lines.empty()) return;
    text_.add("\n{}  {}", bold("CALLS", style_), kCallsNote);
    for (const std::string& text : lines) text_.wrap(text);
  }

  void growth() {
    if (summary_.growth.empty()) return;
    text_.add("\n{}  more at each end than at the one before", bold("GROWTH", style_));
    for (const GrowthSummary& growth : summary_.growth)
      text_.line("{}  [{}]", growth_text(growth, style_),
                 growth.device ? fmt::format("GPU {}", *growth.device) : "host");
  }

  void sites() {
    const TextTable table(text_, {{"phase", names_, true}, {"size"}, {"kind", 16}});
    bool any = false;
    const PhaseSummary* before = nullptr;
    for (const auto& [row, instances] : table_.rows) {
      const PhaseSummary& phase = *row;
      if (row == before) continue;
      before = row;
      for (const auto* site : {&phase.biggest_new_device_site, &phase.biggest_new_host_site}) {
        if (!*site || (*site)->bytes == 0) continue;
        if (!std::exchange(any, true)) text_.add("\n" + bold("BIGGEST NEW SITES", style_));
        table.row(
            {indent_of(phase) + phase.name, text_.size((*site)->bytes), left((*site)->kind, 16)},
            (*site)->title);
      }
    }
  }

  const Summary& summary_;
  const TextStyle& style_;
  TextLines text_;
  const size_t columns_;
  const PhaseRows table_;
  uint64_t device_ = 0, host_ = 0;
  size_t names_ = kNameColumns;
  /// The most important first; choose_figures() puts them in the order of the columns.
  std::vector<const Figure*> figures_{&kFigures[1], &kFigures[3], &kFigures[4], &kFigures[2],
                                      &kFigures[0]};
};

std::string side_csv(const std::optional<PhaseInstanceSide>& side, bool ended) {
  if (!side) return ",,,,";
  const auto if_known = [](const auto& figure) {
    return figure ? fmt::format("{}", *figure) : std::string();
  };
  return fmt::format("{},{},{},{},{}", side->start_bytes, side->peak_bytes,
                     ended ? fmt::format("{}", side->end_bytes) : "", if_known(side->kept_bytes),
                     if_known(side->alloc_count));
}

Json phases_json(const Summary& summary) {
  Json whole = summary_json(summary);
  return object("schema, log, quality, phases", "gpupeak.phases/1", summary.log_path,
                std::move(whole["quality"]), std::move(whole["phases"]));
}

void write_phases_csv(const Summary& summary, std::ostream& out) {
  out << "phase,depth,source,session,first,last,count,begin_ns,open_ns";
  for (const char* side : {"device", "host"}) {
    for (const char* figure :
         {"start_bytes", "peak_bytes", "end_bytes", "kept_bytes", "alloc_count"})
      out << fmt::format(",{}.{}", side, figure);
  }
  out << ",biggest_new_device_site,biggest_new_host_site\r\n";
  for (const PhaseSummary& phase : summary.phases) {
    const auto title = [](const std::optional<Holder>& site) {
      return site ? csv_field(site->title) : "";
    };
    for (const PhaseInstances& part : phase.instances) {
      const bool ended = part.end_ns.has_value();
      out << fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n", csv_field(phase.name),
                         phase.depth, phase.source,
                         phase.session == 0 ? "" : fmt::format("{}", phase.session), part.first,
                         part.last, part.count, part.begin_ns, part.open_ns,
                         side_csv(part.device, ended), side_csv(part.host, ended),
                         title(phase.biggest_new_device_site), title(phase.biggest_new_host_site));
    }
  }
}

}  // namespace

void write_phases(const Summary& summary, std::ostream& out, const ViewStyle& style) {
  if (style.is_json()) return write_line(phases_json(summary), out);
  if (style.is_csv()) return write_phases_csv(summary, out);
  PhaseTable(summary, style).write(out);
}

}  // namespace gpupeak::collector
