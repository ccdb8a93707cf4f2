// The sections of the text report, each as lines, with at most as many rows as are asked for; and
// what puts them in order and makes them fit the screen.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/summary/verdict.h"
#include "collector/summary/what_if.h"
#include "collector/text/scope_key.h"
#include "collector/text/title_text.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

/// As `rows`: the section is shown whole.
constexpr size_t kAllReportRows = SIZE_MAX;
constexpr size_t kPhaseColumns = 22;
constexpr size_t kReportNodeRows = 4;
constexpr size_t kCommandColumns = 12;
constexpr size_t kMaxFailureHolders = 3;
constexpr size_t kBoundsColumns = 22, kGainColumns = 8;

/// The error of an estimate; empty if it is exact.
std::string error_text(const std::optional<uint64_t>& bytes, std::string_view before,
                       const TextStyle& style) {
  return bytes ? fmt::format("{}± {}", before, size_text(*bytes, style)) : "";
}

std::string peak_instant(const Peak& peak) {
  return peak.counted ? "–" : instant(peak.time_ns);
}

std::string kind_mark(const std::string& kind) {
  return fmt::format("  [{}]", kind.substr(kind.find('.') + 1));
}

using Lines = std::vector<std::string>;

class ReportSections {
 public:
  ReportSections(const Summary& summary, const TextStyle& style)
      : summary_(summary),
        style_(style),
        width_(static_cast<size_t>(std::max(style.width, 60))),
        columns_(size_columns(style)),
        verdict_(verdict_of(summary, style)) {}

  // Each section but the verdict begins with an empty line and its heading, and is empty if there
  // is nothing to say.

  /// `full`: also the warnings' texts and facts about the run.
  Lines verdict(bool full) const {
    Lines lines{bold("GPUPEAK", style_) + "  " + line(summary_.log_path)};
    for (const Verdict::Sentence& sentence : verdict_.sentences)
      for (const std::string& text : wrapped(sentence.text, width_, 2, style_))
        lines.push_back(sentence.alarm ? alarm(text, style_) : bold(text, style_));
    for (const std::string& row : full&& summary_.whole_run
                                      ? process_rows(*summary_.whole_run, kAllReportRows, style_)
                                      : verdict_.rows)
      lines.push_back(line("  " + row));
    if (!verdict_.bar.empty()) {
      const std::string bar = bar_text(verdict_.bar, kBarColumns);
      const std::string legend = bar_legend(verdict_.bar, style_);
      if (bar.size() > 0 && kBarColumns + 2 + display_width(legend) <= width_) {
        lines.push_back(bar + "  " + legend);
      } else {
        lines.push_back(bar);
        add_wrapped(legend, lines);
      }
    }
    for (const std::string& hint : verdict_.hints) add_wrapped(hint, lines);
    for (const std::string& one : wrapped(verdict_.facts, width_, 2, style_))
      lines.push_back(faint(one, style_));
    if (!full) {
      if (!verdict_.warnings.empty())
        add_wrapped(fmt::format("warnings: {} ({})  gpupeak report --full {}", verdict_.warnings,
                                verdict_.warning_codes, quoted(summary_.log_path)),
                    lines);
      return lines;
    }
    const auto say = [&](std::string_view name, const std::string& text) {
      lines.push_back(line("  " + left(name, kCommandColumns) + text));
    };
    const RunSummary& run = summary_.run;
    say("command", command_text(run));
    say("process", fmt::format("{}{}{}, started {}", run.pid, run.host.empty() ? "" : " on ",
                               run.host, run.start_time));
    std::string measured = "device memory handed out by the driver, pinned", missing;
    const auto measure = [&](const std::string& name, std::string_view what) {
      std::string& list = metric(summary_.metrics, name) ? measured : missing;
      list += (list.empty() ? "" : ", ") + std::string(what);
    };
    measure("host.kind.heap.peak_bytes", "heap");
    measure("host.kind.mmap_anon.peak_bytes", "anonymous mappings");
    measure("host.rss.peak_bytes", "RSS");
    say("measured", missing.empty() ? measured : measured + "; not measured: " + missing);
    if (summary_.quality.slow_clock)
      say("clock",
          "the kernel does not keep time by the TSC: time stamps cost more, and are exact");
    for (const Warning& warning : summary_.quality.warnings) {
      for (std::string& line :
           wrapped(fmt::format("  {}  {}", code_text(warning.code), warning.message), width_, 4,
                   style_))
        lines.push_back(std::move(line));
    }
    return lines;
  }
  /// Failures that are alike are one row of several lines.
  Lines failures(size_t rows) const {
    std::vector<FailureGroup> groups = fold_failures(summary_);
    if (groups.empty()) return {};
    std::reverse(groups.begin(), groups.end());  // the last failure matters most
    Lines lines{"", heading("FAILED ALLOCATIONS", grouped(summary_.oom_count))};
    uint64_t told = 0;
    for (size_t i = 0; i < std::min(rows, groups.size()); ++i) {
      const Lines one = failure(groups[i], i > 0);  // the verdict has said why the first one failed
      lines.insert(lines.end(), one.begin(), one.end());
      told += groups[i].count;
    }
    if (told < summary_.oom_count)
      lines.push_back(fmt::format("  … {} more", grouped(summary_.oom_count - told)));
    return lines;
  }
  Lines tags(size_t rows) const {
    const Peak* peak = verdict_.device == nullptr
                           ? summary_.find_peak("host")
                           : summary_.find_peak(ScopeKey::device(verdict_.device->ordinal).text());
    if (peak == nullptr || peak->tags.empty()) return {};
    Lines lines{"", heading("BY TAG", "what the peak is for")};
    uint64_t rest = peak->bytes;
    const size_t shown = std::min(rows, peak->tags.size());
    for (size_t i = 0; i < shown; ++i) {
      const TagShare& tag = peak->tags[i];
      rest -= tag.bytes;
      lines.push_back(row(tag.bytes, peak->bytes, grouped(tag.count), tag.name, ""));
    }
    if (rest > 0)
      lines.push_back(
          row(rest, peak->bytes, "", fmt::format("{} more", peak->tags.size() - shown), ""));
    return lines;
  }
  Lines devices(size_t rows) const {
    if (summary_.devices.size() < 2) return {};
    Lines lines{"", heading("GPUS", "each at its own peak")};
    size_t shown = 0;
    for (const DeviceSummary& device : summary_.devices) {
      if (shown++ == rows) {
        lines.push_back(fmt::format("  … {} more", summary_.devices.size() - rows));
        break;
      }
      const Peak* peak = summary_.find_peak(ScopeKey::device(device.ordinal).text());
      if (peak == nullptr) {
        lines.push_back(line(fmt::format("{}  {}", right("0", columns_), device_text(device))));
        continue;
      }
      lines.push_back(
          line(fmt::format("{}  {} of {} at {}{}", right(size(peak->bytes), columns_),
                           device_text(device), size(device.total_bytes), peak_instant(*peak),
                           peak->phase ? ", in " + *peak->phase : "")));
    }
    return lines;
  }
  /// Who was in the pool of which much is idle at the device's peak, when it grew to its size.
  Lines grown_pool(const DeviceSummary& device, size_t rows) const {
    const ArenaSummary* arena = arena_behind_peak(summary_, device.ordinal);
    if (arena == nullptr || rows == 0) return {};
    Lines lines{"", heading("WHAT MADE THE POOL GROW", grown_arena_text(*arena, style_))};
    const TopRows parts(arena->largest.parts, rows, arena->largest.other_bytes);
    const uint64_t whole = arena->reserved_peak_bytes;
    for (const ArenaSummary::Part& part : parts.shown)
      lines.push_back(row(part.bytes, whole, grouped(part.count), part.title, ""));
    if (parts.other_bytes > 0) lines.push_back(row(parts.other_bytes, whole, "", "more", ""));
    return lines;
  }
  /// `scope`: "device:0", "device", "host", "host/pinned".
  Lines holders(const std::string& scope, const std::string& what, size_t rows) const {
    const Peak* peak = summary_.find_peak(scope);
    if (peak == nullptr) return {};
    const std::string phase = peak->phase ? ", phase " + *peak->phase : "";
    const uint64_t before =
        scope == "host" ? metric(summary_.metrics, "host.before_recording_bytes").value_or(0) : 0;
    Lines lines{"",
                heading("PEAK COMPOSITION",
                        fmt::format("{}{}, {}, {}{}{}", what, before > 0 ? " with call sites" : "",
                                    size(peak->bytes), peak_instant(*peak), phase,
                                    error_text(peak->error_bytes, ", an estimate ", style_)))};
    lines.push_back(
        fmt::format("{} {} {}  site", right("size", columns_), right("%", 5), right("n", 7)));
    const bool several_kinds = std::ranges::any_of(peak->holders, [&](const Holder& holder) {
      return holder.kind != peak->holders.front().kind;
    });
    uint64_t sum = peak->other_bytes, rest = peak->other_bytes, more = peak->other_sites;
    const std::vector<const Holder*> by_resident = rows_by_resident(*peak, summary_.metrics);
    for (size_t i = 0; i < by_resident.size(); ++i) {
      const Holder& holder = *by_resident[i];
      sum += holder.bytes;
      if (i >= rows) {
        rest += holder.bytes;
        ++more;
        continue;
      }
      const std::string marks = (several_kinds ? kind_mark(holder.kind) : "") +
                                (holder.temporary ? "  [temporary]" : "") +
                                error_text(holder.error_bytes, "  ", style_) +
                                resident_mark(holder, summary_.metrics, style_);
      const bool full = rows == kAllReportRows;
      lines.push_back(row(holder.bytes, peak->bytes, count_text(holder), holder.title,
                          marks + (full ? "" : role_mark(holder, width_, style_)),
                          holder.telling_part));
      if (const std::string role = role_text(holder, SIZE_MAX, style_); full && !role.empty())
        add_wrapped("      " + role, lines);
    }
    if (rest > 0)
      lines.push_back(row(rest, peak->bytes, "", fmt::format("{} more", grouped(more)), ""));
    lines.push_back(
        right(fmt::format("sum {} = peak, residual {}", size_text(sum, style_), peak->bytes - sum),
              width_));
    if (const std::string note = role_note(*peak, rows); !note.empty()) add_wrapped(note, lines);
    if (before > 0)
      lines.push_back(line(fmt::format(
          "{}        heap from before its recording began, without a call site: not in the rows",
          right(size(before), columns_))));
    return lines;
  }
  /// Settings that would lower the device's peak.
  Lines lowering(const DeviceSummary& device, size_t rows) const {
    const std::optional<Lowering>& lowering = summary_.lowering;
    if (!lowering || lowering->scope != ScopeKey::device(device.ordinal).text()) return {};
    constexpr std::string_view kName = "WHAT WOULD LOWER IT";
    const std::string whatif = "gpupeak whatif " + quoted(summary_.log_path);
    if (lowering->untried_requests > 0) {
      Lines lines{"", heading(kName, "")};
      add_wrapped(fmt::format("  not computed: {} requests; {} computes it",
                              grouped(lowering->untried_requests), whatif),
                  lines);
      return lines;
    }
    if (lowering->rows.empty()) return {};
    const std::string what = "settings, by replay", sites = "without a site: " + whatif;
    const bool fits = kName.size() + 4 + display_width(what) + display_width(sites) <= width_;
    Lines lines{"", heading(kName, fits ? what + "; " + sites : what)};
    for (size_t i = 0; i < std::min(rows, lowering->rows.size()); ++i) {
      const Lowering::Row& row = lowering->rows[i];
      lines.push_back(line(fmt::format(
          "  {}  {}  {}",
          left(bounds_text(row.least_bytes, row.most_bytes, style_), kBoundsColumns),
          right(gain_text(lowering->before_bytes, row.least_bytes, row.most_bytes), kGainColumns),
          setting_text(row.setting, row.about))));
    }
    if (!fits) add_wrapped("  " + sites, lines);
    return lines;
  }
  Lines ledger(const DeviceSummary& device, size_t rows) const {
    if (!device.ledger) return {};
    const LedgerView& view = device.ledger->at_peak;
    const Peak* peak = summary_.find_peak(ScopeKey::device(device.ordinal).text());
    Lines lines{"",
                heading(device.is_integrated() ? "WHAT THE DRIVER SHOWS" : "WHAT NVIDIA-SMI SHOWS",
                        fmt::format("{} {} ({})", device_text(device),
                                    ledger_nearness_text(view, peak, style_),
                                    view.by_failed_call ? "cuMemGetInfo" : device.ledger->source))};
    const auto add = [&](int64_t bytes, const std::string& what) {
      lines.push_back(line(fmt::format("{} {}  {}", right(signed_size(bytes, style_), columns_),
                                       right(ledger_percent(view, bytes), 5), what)));
    };
    add(static_cast<int64_t>(view.tracked_bytes), "handed out to the program");
    std::vector<LedgerRow> parts;
    for (const LedgerRow& part : view.rows) {
      if (part.bytes != 0 || part.cause == "unexplained") parts.push_back(part);
    }
    const auto by_size = [](const LedgerRow& a, const LedgerRow& b) {
      const bool a_last = a.cause == "unexplained", b_last = b.cause == "unexplained";
      return a_last == b_last ? std::llabs(a.bytes) > std::llabs(b.bytes) : b_last;
    };
    std::ranges::stable_sort(parts, by_size);
    size_t shown = 0;
    int64_t rest = 0;
    for (const LedgerRow& part : parts) {
      if (part.cause == "unexplained" || shown++ < rows)
        add(part.bytes, ledger_cause_text(part.cause));
      else
        rest += part.bytes;
    }
    if (rest != 0) add(rest, "other causes");
    lines.push_back(right(fmt::format("sum {} = in use{}", size(view.used_bytes),
                                      view.of_process ? " by this process" : ""),
                          width_));
    if (const std::string others = others_text(view, style_); !others.empty())
      add_wrapped("  " + others.substr(2), lines);
    return lines;
  }
  Lines ledger_items(const DeviceSummary& device) const {
    if (!device.ledger) return {};
    const LedgerView& exit = device.ledger->at_exit;
    Lines lines{line("  at exit " + ledger_sum_text(exit, exit.used_bytes / 1000, style_))};
    uint64_t highest = 0;
    int64_t when = 0;
    for (const auto& [time_ns, used] : device.ledger->readings) {
      if (used > highest) std::tie(highest, when) = std::pair(used, time_ns);
    }
    if (highest > device.ledger->at_peak.used_bytes)
      lines.push_back(fmt::format("  highest reading {} at {}", size(highest), instant(when)));
    if (device.ledger->items.empty()) return lines;
    lines.emplace_back("  the largest behind these causes, over the whole run:");
    for (const LedgerItem& item : device.ledger->items) {
      lines.push_back(
          line(fmt::format("{}  {}: {}{}", right(signed_size(item.bytes, style_), columns_),
                           ledger_cause_text(item.cause), item.name,
                           item.count > 1 ? fmt::format(", {} calls", grouped(item.count)) : "")));
    }
    return lines;
  }
  Lines kinds() const {
    Lines lines{"", heading("PEAKS BY KIND", "each at its own time; they do not add up")};
    for (const auto& [name, value] : summary_.metrics) {
      if (!name.ends_with("peak_bytes") && !name.ends_with("reserved_va_bytes")) continue;
      if (value.value_or(0) > 0)
        lines.push_back(fmt::format("{}  {}", right(size(value), columns_), name));
    }
    return lines;
  }
  /// Resident memory of the host, by cause.
  Lines resident() const {
    const std::vector<ResidentCause> causes = resident_causes(summary_.metrics);
    const auto total = metric(summary_.metrics, "host.resident.total_bytes");
    if (causes.empty() || !total) return {};
    const auto rss = metric(summary_.metrics, "host.rss.peak_bytes");
    const std::string later =
        rss && is_seen_late(*total, *rss) ? fmt::format("; the largest RSS was {}", size(rss)) : "";
    Lines lines{"", heading("RESIDENT", fmt::format("host memory in the machine's RAM, at most {} "
                                                    "when it was looked at, by cause{}",
                                                    size(total), later))};
    for (const ResidentCause& cause : causes)
      lines.push_back(row(cause.bytes, *total, "", std::string(cause.text), ""));
    const auto untouched = metric(summary_.metrics, "host.never_touched_bytes");
    if (untouched.value_or(0) > 0)
      lines.push_back(line(fmt::format("{}        asked for, and not resident then",
                                       right(size(untouched), columns_))));
    return lines;
  }
  /// The phases. Without `full`, those that every process has, and libraries' own, are left out.
  Lines phases(bool of_device, bool full, size_t rows) const {
    const std::string peak_name = of_device ? "device.peak_bytes" : "host.peak_bytes";
    PhaseRows table = phase_rows(summary_, full ? SIZE_MAX : kReportNodeRows);
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
      std::erase_if(all, [](const auto& row) {
        return row.first->source == "auto" || row.first->of_library;
      });
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
    lines.push_back(line(fmt::format(
        "  {} {} {} {} {} {}  biggest new site", left("phase", kPhaseColumns), figure("start"),
        figure("peak"), figure("end"), figure("kept"), right("allocs", kCountColumns))));
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
  /// Phases by call: how many calls, and how they grew.
  Lines calls() const {
    const std::vector<std::string> all = calls_lines(summary_, style_);
    if (all.empty()) return {};
    Lines lines{"", heading("CALLS", std::string(kCallsNote))};
    for (const std::string& text : all) add_wrapped("  " + text, lines);
    return lines;
  }
  /// Memory that was more at each end of a repeated phase.
  Lines growth(size_t rows) const {
    if (summary_.growth.empty()) return {};
    Lines lines{"",
                heading("GROWTH", "more at each end of a repeated phase than at the one before")};
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
  Lines arenas(size_t rows) const {
    const bool in_full = rows == kAllReportRows;
    if (summary_.arenas.empty() && !(in_full && !summary_.driver_pools.empty())) return {};
    Lines lines{
        "",
        heading("POOLS", "what sub-allocators had in use of their memory; each at its own peak")};
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
      const TopRows parts(arena.parts, rows, arena.other_bytes);
      for (const ArenaSummary::Part& part : parts.shown)
        lines.push_back(without_percent(part.bytes, grouped(part.count), part.title));
      if (parts.other_bytes > 0 && rows > 0)
        lines.push_back(without_percent(parts.other_bytes, "", "more"));
    }
    if (in_full) add_driver_pools(lines);
    return lines;
  }
  Lines marks(size_t rows) const {
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
  Lines live_at_exit() const {
    if (summary_.live_at_exit.empty()) return {};
    Lines lines{"",
                heading("LIVE AT EXIT", summary_.quality.log_complete ? "" : "at the last event")};
    for (const Holder& holder : summary_.live_at_exit) {
      const std::string mark = fmt::format("  [{}]", holder.kind);
      const std::string figures = fmt::format("{} {} {}  ", right(size(holder.bytes), columns_),
                                              right("", 5), right(count_text(holder), 7));
      lines.push_back(title_row(figures, holder.title, mark, width_, style_, holder.telling_part));
    }
    return lines;
  }
  Lines temporaries() const {
    if (summary_.temporaries.empty()) return {};
    Lines lines{"", heading("TEMPORARY", "blocks freed right after their allocation")};
    for (const Holder& holder : summary_.temporaries)
      lines.push_back(line(fmt::format("{} blocks  {}  [{}]", right(count_text(holder), 12),
                                       holder.title, holder.kind)));
    return lines;
  }
  /// Which verbs show more.
  Lines more() const {
    Lines lines{""};
    const std::string log = quoted(summary_.log_path);
    std::string text = "all rows: gpupeak report --full " + log;
    if (!summary_.live_at_exit.empty()) text += " | live at exit: gpupeak leaks " + log;
    if (!summary_.temporaries.empty()) text += " | freed at once: gpupeak temporary " + log;
    for (const std::string& one : wrapped(text, width_, 2, style_))
      lines.push_back(faint(one, style_));
    std::string next;
    for (const Verdict::Step& step : verdict_.next) {
      if (step.page && page_template().empty()) continue;
      next += fmt::format("{}{}: {}", next.empty() ? "" : " | ", step.why, step.command);
    }
    if (next.empty()) return lines;
    for (const std::string& one : wrapped(next, width_, 2, style_))
      lines.push_back(faint(one, style_));
    return lines;
  }

  const Verdict& the_verdict() const { return verdict_; }

 private:
  /// The driver's memory pools: what they had reserved, which was read now and then.
  void add_driver_pools(Lines& lines) const {
    for (const DriverPoolsSummary& pools : summary_.driver_pools) {
      lines.push_back(line(
          fmt::format("  cudaMallocAsync on GPU {}  {} reserved at most, {} of it in use then, {}",
                      pools.device, size(pools.reserved_peak_bytes), size(pools.in_use_bytes),
                      instant(pools.time_ns))));
      lines.push_back(
          line(fmt::format("    at the end {} reserved; taken for:", size(pools.reserved_bytes))));
      for (const ArenaSummary::Cause& cause : pools.causes)
        lines.push_back(without_percent(cause.bytes, grouped(cause.segments), cause.title));
      if (pools.other_cause_bytes > 0)
        lines.push_back(without_percent(pools.other_cause_bytes, "", "more"));
    }
  }
  std::string size(const std::optional<uint64_t>& bytes) const { return size_text(bytes, style_); }
  std::string heading(std::string_view name, const std::string& rest) const {
    const size_t used = name.size() + 2;
    return bold(name, style_) +
           (rest.empty() ? "" : "  " + cut(rest, width_ > used ? width_ - used : 0, style_));
  }
  std::string line(const std::string& text) const { return cut(text, width_, style_); }
  /// A row of what is no part of the peak.
  std::string without_percent(uint64_t bytes, const std::string& count,
                              const std::string& title) const {
    return line(fmt::format("{} {} {}  {}", right(size(bytes), columns_), right("", 5),
                            right(count, 7), title));
  }
  std::string row(uint64_t bytes, uint64_t whole, const std::string& count,
                  const std::string& title, const std::string& marks, size_t telling = 0) const {
    const std::string figures = fmt::format("{} {} {}  ", right(size_text(bytes, style_), columns_),
                                            right(percent(bytes, whole), 5), right(count, 7));
    return line(title_row(figures, title, marks, width_, style_, telling));
  }
  Lines failure(const FailureGroup& group, bool with_why) const {
    const OutOfMemory& oom = *group.last;
    const std::string where = oom.device ? fmt::format(" on GPU {}", *oom.device) : "";
    const std::string times =
        group.count > 1 ? fmt::format(", {} times", grouped(group.count)) : "";
    std::string slack;
    const auto add = [&](std::string_view what, uint64_t bytes) {
      if (bytes > 0) slack += fmt::format("{}{} {}", slack.empty() ? "" : ", ", what, size(bytes));
    };
    add("pools", oom.pool_slack_bytes);
    add("pages of small blocks", oom.page_slack_bytes);
    add("addresses without memory", oom.unmapped_address_bytes);
    const std::string result =
        !oom.refused_by ? oom.result
        : oom.driver_refusals == 0
            ? "refused by the pool itself"
            : fmt::format("refused by the pool, after the driver ({} of {})",
                          grouped(oom.driver_refusals), size(oom.driver_asked_bytes));
    const std::string asked =
        oom.for_driver ? " for the driver's own use" : " of " + size(oom.requested_bytes);
    Lines lines{line(fmt::format("  {}  {}{}{}: {}{}", instant(oom.time_ns), oom.api, asked, where,
                                 result, times))};
    lines.push_back(
        line(fmt::format("    held {}, free {}, would have fitted {}{}", size(oom.live_bytes),
                         size(oom.driver_free_bytes), size(oom.largest_fit_bytes),
                         slack.empty() ? "" : "; held and not in use: " + slack)));
    lines.push_back(line("    at " + oom.title));
    const std::string why = with_why ? why_text(oom, style_) : "";
    if (!why.empty()) {
      add_wrapped("    why: " + why, lines);
      if (const std::string help = help_text(oom, style_); !help.empty())
        add_wrapped("    try: " + help, lines);
    }
    if (oom.ledger)
      lines.push_back(line("    nvidia-smi: " +
                           ledger_sum_text(*oom.ledger, oom.ledger->used_bytes / 1000, style_)));
    for (size_t i = 0; i < std::min(oom.holders.size(), kMaxFailureHolders); ++i)
      lines.push_back(
          line(fmt::format("    {} held by {}", size(oom.holders[i].bytes), oom.holders[i].title)));
    return lines;
  }
  void add_wrapped(const std::string& text, Lines& lines) const {
    for (std::string& one : wrapped(text, width_, 2, style_)) lines.push_back(std::move(one));
  }

  const Summary& summary_;
  const TextStyle& style_;
  const size_t width_, columns_;
  const Verdict verdict_;
};

constexpr size_t kMaxMarks = 20;

/// A section of the one screen: how many rows it has at first, how many it keeps while other
/// sections have rows to spare, and how many remain if nothing else helps.
struct Section {
  size_t rows, least;
  std::function<Lines(size_t rows)> lines;
  size_t last = least;
};

void put(const Lines& lines, std::ostream& out) {
  for (const std::string& line : lines) out << line << '\n';
}

std::string scope_of(const DeviceSummary& device) {
  return ScopeKey::device(device.ordinal).text();
}

std::string what_of(const DeviceSummary& device) {
  return device_text(device) + ", device memory";
}

struct Composition {
  std::string scope, what;
};

/// Kinds that count into no sum, if there is much of them: managed memory, since it may lie on
/// either side, and imported memory, since it is another process's.
std::vector<Composition> beyond_the_sum(const Summary& summary, const DeviceSummary& device) {
  constexpr uint64_t kMuch = 16 << 20, kShare = 10;
  const uint64_t peak = metric(device.metrics, "device.peak_bytes").value_or(0);
  std::vector<Composition> found;
  for (const std::string_view kind : {"managed", "imported"}) {
    const std::string scope = fmt::format("{}/{}", scope_of(device), kind);
    const Peak* of_kind = summary.find_peak(scope);
    if (of_kind == nullptr || of_kind->bytes < kMuch || of_kind->bytes < peak / kShare) continue;
    found.push_back(
        {scope, fmt::format("{}, {} memory, in no other sum", device_text(device), kind)});
  }
  return found;
}

/// Takes rows from the section that has most to spare, until everything fits.
void write_one_screen(const Summary& summary, const ReportSections& report, std::ostream& out) {
  const DeviceSummary* device = report.the_verdict().device;
  const auto host = [&](size_t rows) {
    return rows == 0 ? Lines{} : report.holders("host", "host memory", rows);
  };
  std::vector<Section> sections{
      {0, 0, [&](size_t) { return report.verdict(false); }},
      {2, 1, [&](size_t rows) { return report.failures(rows); }},
      {8, 0, [&](size_t rows) { return rows == 0 ? Lines{} : report.devices(rows); }},
      {6, 4, [&](size_t rows) { return report.tags(rows); }, 1},
  };
  const auto add = [&](size_t rows, size_t least, std::function<Lines(size_t)> lines) {
    sections.push_back({rows, least, std::move(lines)});
  };
  if (device == nullptr) add(10, 3, host);
  if (device != nullptr) {
    add(6, 2, [&](size_t rows) { return report.grown_pool(*device, rows); });
    add(10, 3,
        [&](size_t rows) { return report.holders(scope_of(*device), what_of(*device), rows); });
  }
  std::vector<Composition> beyond;
  if (device != nullptr) beyond = beyond_the_sum(summary, *device);
  for (const Composition& kind : beyond)
    add(4, 1, [&](size_t rows) { return report.holders(kind.scope, kind.what, rows); });
  if (device != nullptr) add(3, 1, [&](size_t rows) { return report.lowering(*device, rows); });
  add(4, 0, [&](size_t rows) { return report.arenas(rows); });
  if (device != nullptr) add(8, 1, [&](size_t rows) { return report.ledger(*device, rows); });
  add(10, 1, [&](size_t rows) { return report.phases(device != nullptr, false, rows); });
  add(0, 0, [&](size_t) { return report.calls(); });
  add(3, 0, [&](size_t rows) { return rows == 0 ? Lines{} : report.growth(rows); });
  if (device != nullptr) add(3, 0, host);
  add(3, 0, [&](size_t rows) { return rows == 0 ? Lines{} : report.marks(rows); });
  add(0, 0, [&](size_t) { return report.more(); });

  std::vector<Lines> texts;
  size_t lines = 0;
  for (const Section& section : sections) {
    texts.push_back(section.lines(section.rows));
    lines += texts.back().size();
  }
  while (lines > kReportLines) {
    size_t widest = 0;
    const auto spare = [&](size_t i) {
      return texts[i].empty() ? 0 : sections[i].rows - sections[i].least;
    };
    for (size_t i = 0; i < sections.size(); ++i) {
      if (spare(i) > spare(widest)) widest = i;
    }
    if (spare(widest) == 0) {
      const auto yields =
          std::ranges::find_if(sections, [](const Section& s) { return s.least > s.last; });
      if (yields == sections.end()) break;
      yields->least = yields->last;
      continue;
    }
    --sections[widest].rows;
    lines -= texts[widest].size();
    texts[widest] = sections[widest].lines(sections[widest].rows);
    lines += texts[widest].size();
  }
  for (const Lines& text : texts) put(text, out);
}

void write_all(const Summary& summary, const ReportSections& report, const TextStyle& style,
               std::ostream& out) {
  put(report.verdict(true), out);
  put(report.failures(kAllReportRows), out);
  put(report.devices(kAllReportRows), out);
  put(report.tags(kAllReportRows), out);
  for (const DeviceSummary& device : summary.devices) {
    put(report.grown_pool(device, kAllReportRows), out);
    put(report.holders(scope_of(device), what_of(device), kAllReportRows), out);
    for (const Composition& kind : beyond_the_sum(summary, device))
      put(report.holders(kind.scope, kind.what, kAllReportRows), out);
    put(report.lowering(device, kAllReportRows), out);
  }
  if (summary.devices.size() > 1) {
    const auto sum = metric(summary.metrics, "device.sum_of_peaks_bytes");
    put(report.holders(
            "device", fmt::format("all GPUs together (their own peaks: {})", size_text(sum, style)),
            kAllReportRows),
        out);
  }
  put(report.holders("host", "host memory", kAllReportRows), out);
  if (summary.find_peak("host") == nullptr)
    put(report.holders("host/pinned", "pinned host memory", kAllReportRows), out);
  put(report.growth(kAllReportRows), out);
  put(report.arenas(kAllReportRows), out);
  for (const DeviceSummary& device : summary.devices) {
    put(report.ledger(device, kAllReportRows), out);
    put(report.ledger_items(device), out);
  }
  put(report.resident(), out);
  put(report.kinds(), out);
  for (const bool of_device : {true, false})
    put(report.phases(of_device, true, kAllReportRows), out);
  put(report.calls(), out);
  put(report.marks(kMaxMarks), out);
  put(report.live_at_exit(), out);
  put(report.temporaries(), out);
}

}  // namespace

void write_text(const Summary& summary, std::ostream& out, const TextStyle& style,
                ReportLength length) {
  const ReportSections report(summary, style);
  if (length == ReportLength::kFull)
    write_all(summary, report, style, out);
  else
    write_one_screen(summary, report, out);
}

}  // namespace gpupeak::collector
