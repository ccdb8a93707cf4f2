// The report's sections that follow time: phases, calls, growth, pools and marks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <set>

#include "collector/summary/arena_text.h"
#include "collector/summary/failure_text.h"
#include "collector/summary/run_text.h"
#include "collector/write/report_sections.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kPhaseColumns = 22;
constexpr size_t kNodeRows = 4;

}  // namespace

ReportSections::Lines ReportSections::phases(bool of_device, bool full, size_t rows) const {
  const std::string peak_name = of_device ? "device.peak_bytes" : "host.peak_bytes";
  PhaseRows table = phase_rows(summary_, full ? SIZE_MAX : kNodeRows);
  auto& all = table.rows;
  uint64_t largest = 0;
  int outermost = INT_MAX;  // depth of the outermost phase that is shown
  for (const PhaseSummary& phase : summary_.phases) {
    largest = std::max(largest, metric(phase.metrics, peak_name).value_or(0));
    if (!full && (phase.source == "auto" || phase.of_library)) continue;
    outermost = std::min(outermost, phase.depth);
  }
  std::set<std::string> libraries;
  if (!full) {
    for (const auto& [phase, instances] : all) {
      if (phase->of_library) libraries.insert(phase->name.substr(0, phase->name.find(':')));
    }
    std::erase_if(
        all, [](const auto& row) { return row.first->source == "auto" || row.first->of_library; });
  }
  const std::string of_libraries =
      libraries.empty() ? ""
                        : fmt::format("libraries' own ({}): gpupeak phases {}",
                                      fmt::join(libraries, ", "), quoted(summary_.log_path));
  if (largest == 0) return {};
  if (all.empty() && !libraries.empty())
    return {"", heading("PHASES", "none but the " + of_libraries)};
  if (all.empty()) return {};
  const auto figure = [&](std::string_view name) { return right(name, columns_); };
  Lines lines{"", heading("PHASES", of_device ? "device memory" : "host memory")};
  lines.push_back(line(fmt::format("  {} {} {} {} {} {}  biggest new site",
                                   left("phase", kPhaseColumns), figure("start"), figure("peak"),
                                   figure("end"), figure("kept"), right("allocs", kCountColumns))));
  const PhaseSummary* before = nullptr;
  size_t shown = 0;
  for (const auto& [phase, instances] : all) {
    if (shown++ == rows) {
      add_wrapped(fmt::format("  … {} more: gpupeak phases {}", all.size() - rows,
                              quoted(summary_.log_path)),
                  lines);
      break;
    }
    const auto depth = static_cast<size_t>(std::min(phase->depth - outermost, 8)) * 2;
    const std::string name = std::string(depth, ' ') + instances_text(*phase, *instances);
    const std::optional<PhaseInstanceSide> side =
        of_device ? std::optional(instances->device) : instances->host;
    const std::optional<Holder>& biggest =
        of_device ? phase->biggest_new_device_site : phase->biggest_new_host_site;
    const std::string site = before != phase    ? (biggest ? biggest->title : "–")
                             : instances->alike ? ""
                                                : "(they differ)";
    before = phase;
    const auto bytes = [&](bool known, const std::optional<uint64_t>& value) {
      return right(known ? size(value) : "–", columns_);
    };
    const PhaseInstanceSide figures = side.value_or(PhaseInstanceSide{});
    lines.push_back(line(fmt::format(
        "  {} {} {} {} {} {}  {}", name_cell(name, kPhaseColumns, style_),
        bytes(side.has_value(), figures.start_bytes), bytes(side.has_value(), figures.peak_bytes),
        bytes(side && instances->end_ns, figures.end_bytes),
        right(signed_size(figures.kept_bytes, style_), columns_),
        right(figures.alloc_count ? grouped(*figures.alloc_count) : "–", kCountColumns), site)));
  }
  if (!libraries.empty()) add_wrapped("  without the " + of_libraries, lines);
  return lines;
}

ReportSections::Lines ReportSections::calls() const {
  const std::vector<std::string> all = calls_lines(summary_, style_);
  if (all.empty()) return {};
  Lines lines{"", heading("CALLS", std::string(kCallsNote))};
  for (const std::string& text : all) add_wrapped("  " + text, lines);
  return lines;
}

ReportSections::Lines ReportSections::growth(size_t rows) const {
  if (summary_.growth.empty()) return {};
  Lines lines{"", heading("GROWTH", "more at each end of a repeated phase than at the one before")};
  for (size_t i = 0; i < std::min(rows, summary_.growth.size()); ++i) {
    const GrowthSummary& growth = summary_.growth[i];
    const std::string where =
        growth.device ? fmt::format("GPU {}", *growth.device) : std::string("host");
    lines.push_back(line(fmt::format("  {}  [{}]", growth_text(growth, style_), where)));
  }
  if (summary_.growth.size() > rows)
    lines.push_back(fmt::format("  … {} more", summary_.growth.size() - rows));
  return lines;
}

/// The driver's memory pools: what they had reserved, which was read now and then.
void ReportSections::add_driver_pools(Lines& lines) const {
  for (const DriverPoolsSummary& pools : summary_.driver_pools) {
    lines.push_back(line(fmt::format(
        "  cudaMallocAsync on GPU {}  {} reserved at most, {} of it in use then, {}", pools.device,
        size(pools.reserved_peak_bytes), size(pools.in_use_bytes), instant(pools.time_ns))));
    lines.push_back(
        line(fmt::format("    at the end {} reserved; taken for:", size(pools.reserved_bytes))));
    const auto row = [&](uint64_t bytes, const std::string& count, const std::string& title) {
      lines.push_back(line(fmt::format("{} {} {}  {}", right(size(bytes), columns_), right("", 5),
                                       right(count, 7), title)));
    };
    for (const ArenaSummary::Cause& cause : pools.causes)
      row(cause.bytes, grouped(cause.segments), cause.title);
    if (pools.other_cause_bytes > 0) row(pools.other_cause_bytes, "", "more");
  }
}

ReportSections::Lines ReportSections::arenas(size_t rows) const {
  const bool in_full = rows == kAllReportRows;
  if (summary_.arenas.empty() && !(in_full && !summary_.driver_pools.empty())) return {};
  Lines lines{
      "", heading("POOLS", "what sub-allocators had in use of their memory; each at its own peak")};
  for (const ArenaSummary& arena : summary_.arenas) {
    const std::string where = arena.device    ? fmt::format(" on GPU {}", *arena.device)
                              : arena.on_host ? " on the host"
                                              : "";
    lines.push_back(
        line(fmt::format("  {}{}  {}", arena.name, where, arena_peak_text(arena, style_))));
    lines.push_back(line("    " + arena_end_text(arena, style_)));
    // On one screen the verdict says this about the arena that matters.
    if (in_full) {
      for (const std::string& one :
           wrapped(arena_growth_text(arena, style_), width_ - 4, 2, style_))
        lines.push_back("    " + one);
    }
    uint64_t rest = arena.other_bytes;
    for (size_t i = 0; i < arena.parts.size(); ++i) {
      const ArenaSummary::Part& part = arena.parts[i];
      if (i >= rows) {
        rest += part.bytes;
        continue;
      }
      lines.push_back(line(fmt::format("{} {} {}  {}", right(size(part.bytes), columns_),
                                       right("", 5), right(grouped(part.count), 7), part.title)));
    }
    if (rest > 0 && rows > 0)
      lines.push_back(
          fmt::format("{} {} {}  more", right(size(rest), columns_), right("", 5), right("", 7)));
  }
  if (in_full) add_driver_pools(lines);
  return lines;
}

ReportSections::Lines ReportSections::grown_pool(const DeviceSummary& device, size_t rows) const {
  const ArenaSummary* arena = arena_behind_peak(summary_, device.ordinal);
  if (arena == nullptr || rows == 0) return {};
  Lines lines{"", heading("WHAT MADE THE POOL GROW", grown_arena_text(*arena, style_))};
  const std::vector<ArenaSummary::Part>& parts = arena->largest.parts;
  uint64_t rest = arena->largest.other_bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i >= rows)
      rest += parts[i].bytes;
    else
      lines.push_back(row(parts[i].bytes, arena->reserved_peak_bytes, grouped(parts[i].count),
                          parts[i].title, ""));
  }
  if (rest > 0) lines.push_back(row(rest, arena->reserved_peak_bytes, "", "more", ""));
  return lines;
}

ReportSections::Lines ReportSections::marks(size_t rows) const {
  if (summary_.marks.empty()) return {};
  Lines lines{"", heading("MARKS", grouped(summary_.mark_count))};
  for (size_t i = 0; i < std::min(rows, summary_.marks.size()); ++i) {
    const MarkSummary& mark = summary_.marks[i];
    lines.push_back(
        line(fmt::format("  {}  {}  device {}, host {}", instant(mark.time_ns),
                         mark.domain.empty() ? mark.name : mark.domain + ":" + mark.name,
                         size(mark.device_bytes), size(mark.host_bytes))));
  }
  if (summary_.mark_count > rows)
    lines.push_back(fmt::format("  … {} more", grouped(summary_.mark_count - rows)));
  return lines;
}

}  // namespace gpupeak::collector
