// The sections of the text report, each as lines, with at most as many rows as are asked for; and
// what puts them in order and makes them fit the screen.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <functional>
#include <set>

#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/summary/verdict.h"
#include "collector/summary/what_if.h"
#include "collector/text/scope_key.h"
#include "collector/text/text_lines.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

/// As `rows`: the section is shown whole.
constexpr size_t kAllReportRows = SIZE_MAX;
constexpr size_t kPhaseColumns = 22;
constexpr size_t kReportNodeRows = 4;
constexpr size_t kCommandColumns = 12;
constexpr size_t kMaxFailureHolders = 3;

/// The error of an estimate; empty if it is exact.
std::string error_text(const std::optional<uint64_t>& bytes, std::string_view before,
                       const TextStyle& style) {
  return bytes ? fmt::format("{}± {}", before, size_text(*bytes, style)) : "";
}

std::string peak_instant(const Peak& peak) {
  return peak.counted ? "–" : instant(peak.time_ns);
}

class ReportSections {
 public:
  ReportSections(const Summary& summary, const TextStyle& style)
      : summary_(summary), style_(style), verdict_(verdict_of(summary, style)) {}

  // Each section but the verdict begins with an empty line and its heading, and is empty if there
  // is nothing to say.

  /// `full`: also the warnings' texts and facts about the run.
  TextLines verdict(bool full) const {
    TextLines lines = none();
    lines.add(bold("GPUPEAK", style_) + "  " + cut(summary_.log_path, lines.width(), style_));
    for (const Verdict::Sentence& sentence : verdict_.sentences)
      lines.wrap(sentence.text, sentence.alarm ? alarm : bold);
    for (const std::string& row : full&& summary_.whole_run
                                      ? process_rows(*summary_.whole_run, kAllReportRows, style_)
                                      : verdict_.rows)
      lines.line("  " + row);
    add_bar(verdict_, "", lines);
    for (const std::string& hint : verdict_.hints) lines.wrap(hint);
    lines.wrap(verdict_.facts, faint);
    if (!full) {
      if (!verdict_.warnings.empty())
        lines.wrap("warnings: {} ({})  gpupeak report --full {}", verdict_.warnings,
                   verdict_.warning_codes, quoted(summary_.log_path));
      return lines;
    }
    const auto say = [&](std::string_view name, const std::string& text) {
      lines.line("  {}{}", left(name, kCommandColumns), text);
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
      for (const std::string& one :
           wrapped(fmt::format("  {}  {}", code_text(warning.code), warning.message), lines.width(),
                   4, style_))
        lines.add(one);
    }
    return lines;
  }
  /// Failures that are alike are one row of several lines.
  TextLines failures(size_t rows = kAllReportRows) const {
    std::vector<FailureGroup> groups = fold_failures(summary_);
    if (groups.empty()) return none();
    std::reverse(groups.begin(), groups.end());  // the last failure matters most
    TextLines lines = section("FAILED ALLOCATIONS", grouped(summary_.oom_count));
    uint64_t told = 0;
    for (size_t i = 0; i < std::min(rows, groups.size()); ++i) {
      add_failure(groups[i], i > 0, lines);  // the verdict has said why the first one failed
      told += groups[i].count;
    }
    if (told < summary_.oom_count) lines.add("  … {} more", grouped(summary_.oom_count - told));
    return lines;
  }
  TextLines tags(size_t rows = kAllReportRows) const {
    const Peak* peak = verdict_.device == nullptr
                           ? summary_.find_peak("host")
                           : summary_.find_peak(ScopeKey::device(verdict_.device->ordinal).text());
    if (peak == nullptr || peak->tags.empty()) return none();
    TextLines lines = section("BY TAG", "what the peak is for");
    const TopRows tags(peak->tags, rows);  // they add up to the peak
    for (const TagShare& tag : tags.shown)
      lines.part(tag.bytes, peak->bytes, grouped(tag.count), tag.name);
    if (tags.other_bytes > 0)
      lines.part(tags.other_bytes, peak->bytes, "", fmt::format("{} more", tags.others));
    return lines;
  }
  TextLines devices(size_t rows = kAllReportRows) const {
    if (summary_.devices.size() < 2 || rows == 0) return none();
    TextLines lines = section("GPUS", "each at its own peak");
    lines.first(summary_.devices, rows, [&](const DeviceSummary& device) {
      const Peak* peak = summary_.find_peak(ScopeKey::device(device.ordinal).text());
      if (peak == nullptr) return lines.line("{}  {}", lines.cell("0"), device_text(device));
      lines.line("{}  {} of {} at {}{}", lines.cell(peak->bytes), device_text(device),
                 size(device.total_bytes), peak_instant(*peak),
                 peak->phase ? ", in " + *peak->phase : "");
    });
    return lines;
  }
  /// Who was in the pool of which much is idle at the device's peak, when it grew to its size.
  TextLines grown_pool(const DeviceSummary& device, size_t rows = kAllReportRows) const {
    const ArenaSummary* arena = arena_behind_peak(summary_, device.ordinal);
    if (arena == nullptr || rows == 0) return none();
    TextLines lines = section("WHAT MADE THE POOL GROW", grown_arena_text(*arena, style_));
    const TopRows parts(arena->largest.parts, rows, arena->largest.other_bytes);
    const uint64_t whole = arena->reserved_peak_bytes;
    for (const ArenaSummary::Part& part : parts.shown)
      lines.part(part.bytes, whole, grouped(part.count), part.title);
    if (parts.other_bytes > 0) lines.part(parts.other_bytes, whole, "", "more");
    return lines;
  }
  /// `scope`: "device:0", "device", "host", "host/pinned".
  TextLines holders(const std::string& scope, const std::string& what,
                    size_t rows = kAllReportRows) const {
    const Peak* peak = summary_.find_peak(scope);
    if (peak == nullptr || rows == 0) return none();
    const std::string phase = peak->phase ? ", phase " + *peak->phase : "";
    const uint64_t before =
        scope == "host" ? metric(summary_.metrics, "host.before_recording_bytes").value_or(0) : 0;
    TextLines lines =
        section("PEAK COMPOSITION",
                fmt::format("{}{}, {}, {}{}{}", what, before > 0 ? " with call sites" : "",
                            size(peak->bytes), peak_instant(*peak), phase,
                            error_text(peak->error_bytes, ", an estimate ", style_)));
    lines.parts().head("site");
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
      lines.part(holder.bytes, peak->bytes, count_text(holder), holder.title,
                 marks + (full ? "" : role_mark(holder, lines.width(), style_)),
                 holder.telling_part);
      if (const std::string role = role_text(holder, SIZE_MAX, style_); full && !role.empty())
        lines.wrap("      " + role);
    }
    if (rest > 0) lines.part(rest, peak->bytes, "", grouped(more) + " more");
    lines.sum("sum {} = peak, residual {}", size(sum), peak->bytes - sum);
    if (const std::string note = role_note(*peak, rows); !note.empty()) lines.wrap(note);
    if (before > 0)
      lines.line(
          "{}        heap from before its recording began, without a call site: not in the rows",
          lines.cell(before));
    return lines;
  }
  /// Settings that would lower the device's peak.
  TextLines lowering(const DeviceSummary& device, size_t rows = kAllReportRows) const {
    const std::optional<Lowering>& lowering = summary_.lowering;
    if (!lowering || lowering->scope != ScopeKey::device(device.ordinal).text()) return none();
    constexpr std::string_view kName = "WHAT WOULD LOWER IT";
    const std::string whatif = "gpupeak whatif " + quoted(summary_.log_path);
    if (lowering->untried_requests > 0) {
      TextLines lines = section(kName, "");
      lines.wrap("  not computed: {} requests; {} computes it", grouped(lowering->untried_requests),
                 whatif);
      return lines;
    }
    if (lowering->rows.empty()) return none();
    const std::string what = "settings, by replay", sites = "without a site: " + whatif;
    const bool fits =
        kName.size() + 4 + display_width(what) + display_width(sites) <= none().width();
    TextLines lines = section(kName, fits ? what + "; " + sites : what);
    for (const Lowering::Row& row : first_of(lowering->rows, rows)) {
      lines.line(lowering_row(lowering->before_bytes, row.least_bytes, row.most_bytes,
                              setting_text(row.setting, row.about), style_));
    }
    if (!fits) lines.wrap("  " + sites);
    return lines;
  }
  TextLines ledger(const DeviceSummary& device, size_t rows = kAllReportRows) const {
    if (!device.ledger) return none();
    const LedgerView& view = device.ledger->at_peak;
    const Peak* peak = summary_.find_peak(ScopeKey::device(device.ordinal).text());
    TextLines lines = section(
        device.is_integrated() ? "WHAT THE DRIVER SHOWS" : "WHAT NVIDIA-SMI SHOWS",
        fmt::format("{} {} ({})", device_text(device), ledger_nearness_text(view, peak, style_),
                    view.by_failed_call ? "cuMemGetInfo" : device.ledger->source));
    const auto add = [&](int64_t bytes, const std::string& what) {
      lines.parts().line({signed_size(bytes, style_), ledger_percent(view, bytes)}, what);
    };
    add(static_cast<int64_t>(view.tracked_bytes), "handed out to the program");
    std::vector<LedgerRow> parts = view.rows;
    std::erase_if(parts, [](const LedgerRow& part) {
      return part.bytes == 0 && part.cause != "unexplained";
    });
    std::ranges::stable_sort(parts, std::greater(), [](const LedgerRow& part) {
      return std::pair(part.cause != "unexplained", std::llabs(part.bytes));
    });
    size_t shown = 0;
    int64_t rest = 0;
    for (const LedgerRow& part : parts) {
      if (part.cause == "unexplained" || shown++ < rows)
        add(part.bytes, ledger_cause_text(part.cause));
      else
        rest += part.bytes;
    }
    if (rest != 0) add(rest, "other causes");
    lines.sum("sum {} = in use{}", size(view.used_bytes),
              view.of_process ? " by this process" : "");
    if (const std::string others = others_text(view, style_); !others.empty())
      lines.wrap("  " + others.substr(2));
    return lines;
  }
  TextLines ledger_items(const DeviceSummary& device) const {
    TextLines lines = none();
    if (!device.ledger) return lines;
    const LedgerView& exit = device.ledger->at_exit;
    lines.line("  at exit {}", ledger_sum_text(exit, exit.used_bytes / 1000, style_));
    const auto& readings = device.ledger->readings;
    const auto highest =
        std::ranges::max_element(readings, {}, [](const auto& of) { return of.second; });
    if (highest != readings.end() && highest->second > device.ledger->at_peak.used_bytes)
      lines.add("  highest reading {} at {}", size(highest->second), instant(highest->first));
    if (device.ledger->items.empty()) return lines;
    lines.add("  the largest behind these causes, over the whole run:");
    for (const LedgerItem& item : device.ledger->items) {
      lines.line("{}  {}: {}{}", lines.cell(signed_size(item.bytes, style_)),
                 ledger_cause_text(item.cause), item.name,
                 item.count > 1 ? fmt::format(", {} calls", grouped(item.count)) : "");
    }
    return lines;
  }
  TextLines kinds() const {
    TextLines lines = section("PEAKS BY KIND", "each at its own time; they do not add up");
    for (const auto& [name, value] : summary_.metrics) {
      if (!name.ends_with("peak_bytes") && !name.ends_with("reserved_va_bytes")) continue;
      if (value.value_or(0) > 0) lines.add("{}  {}", lines.cell(value), name);
    }
    return lines;
  }
  /// Resident memory of the host, by cause.
  TextLines resident() const {
    const std::vector<ResidentCause> causes = resident_causes(summary_.metrics);
    if (causes.empty()) return none();
    const uint64_t total = sum_of(causes, &ResidentCause::bytes);
    TextLines lines =
        section("RESIDENT",
                fmt::format("host memory in the machine's RAM, at most {}, by cause", size(total)));
    for (const ResidentCause& cause : causes) lines.part(cause.bytes, total, "", cause.text);
    const auto untouched = metric(summary_.metrics, "host.never_touched_bytes");
    if (untouched.value_or(0) > 0)
      lines.line("{}        asked for, and not resident then", lines.cell(untouched));
    return lines;
  }
  /// The phases. Without `full`, those that every process has, and libraries' own, are left out.
  TextLines phases(bool of_device, bool full, size_t rows = kAllReportRows) const {
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
    if (largest == 0) return none();
    if (all.empty() && !libraries.empty()) return section("PHASES", "none but the " + of_libraries);
    if (all.empty()) return none();
    TextLines lines = section(
        "PHASES", fmt::format("{} memory{}", of_device ? "device" : "host", kept_note(table)));
    const std::vector<TextColumn> columns{
        {"phase", kPhaseColumns, true}, {"start"}, {"peak"}, {"end"}, {"kept"},
        {"allocs", kCountColumns}};
    const TextTable sides(lines, columns, "  ");
    sides.head("biggest new site");
    const PhaseSummary* before = nullptr;
    size_t shown = 0;
    for (const auto& [phase, instances] : all) {
      if (shown++ == rows) {
        lines.wrap("  … {} more: gpupeak phases {}", all.size() - rows, quoted(summary_.log_path));
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
      const auto bytes = [&](bool known, uint64_t value) {
        return size(known ? std::optional(value) : std::nullopt);
      };
      const PhaseInstanceSide figures = side.value_or(PhaseInstanceSide{});
      sides.line({name, bytes(side.has_value(), figures.start_bytes),
                  bytes(side.has_value(), figures.peak_bytes),
                  bytes(side && instances->end_ns, figures.end_bytes),
                  signed_size(figures.kept_bytes, style_),
                  figures.alloc_count ? grouped(*figures.alloc_count) : "–"},
                 site);
    }
    if (!libraries.empty()) lines.wrap("  without the " + of_libraries);
    return lines;
  }
  /// Phases by call: how many calls, and how they grew.
  TextLines calls() const {
    const std::vector<std::string> all = calls_lines(summary_, style_);
    if (all.empty()) return none();
    TextLines lines = section("CALLS", kCallsNote);
    for (const std::string& text : all) lines.wrap("  " + text);
    return lines;
  }
  /// Memory that was more at each end of a repeated phase.
  TextLines growth(size_t rows = kAllReportRows) const {
    if (summary_.growth.empty() || rows == 0) return none();
    TextLines lines =
        section("GROWTH", "more at each end of a repeated phase than at the one before");
    lines.first(summary_.growth, rows, [&](const GrowthSummary& growth) {
      const std::string where = growth.device ? fmt::format("GPU {}", *growth.device) : "host";
      lines.line("  {}  [{}]", growth_text(growth, style_), where);
    });
    return lines;
  }
  TextLines arenas(size_t rows = kAllReportRows) const {
    const bool in_full = rows == kAllReportRows;
    if (summary_.arenas.empty() && !(in_full && !summary_.driver_pools.empty())) return none();
    TextLines lines =
        section("POOLS", "what sub-allocators had in use of their memory; each at its own peak");
    for (const ArenaSummary& arena : summary_.arenas) {
      const std::string where = arena.device    ? fmt::format(" on GPU {}", *arena.device)
                                : arena.on_host ? " on the host"
                                                : "";
      lines.line("  {}{}  {}", arena.name, where, arena_peak_text(arena, style_));
      lines.line("    " + arena_end_text(arena, style_));
      // On one screen the verdict says this about the arena that matters.
      if (in_full) {
        for (const std::string& one :
             wrapped(arena_growth_text(arena, style_), lines.width() - 4, 2, style_))
          lines.add("    " + one);
      }
      const TopRows parts(arena.parts, rows, arena.other_bytes);
      for (const ArenaSummary::Part& part : parts.shown)
        add_apart(part.bytes, grouped(part.count), part.title, lines);
      if (parts.other_bytes > 0 && rows > 0) add_apart(parts.other_bytes, "", "more", lines);
    }
    if (in_full) add_driver_pools(lines);
    return lines;
  }
  TextLines marks(size_t rows) const {
    if (summary_.marks.empty() || rows == 0) return none();
    TextLines lines = section("MARKS", grouped(summary_.mark_count));
    for (const MarkSummary& mark : first_of(summary_.marks, rows)) {
      lines.line("  {}  {}  device {}, host {}", instant(mark.time_ns),
                 mark.domain.empty() ? mark.name : mark.domain + ":" + mark.name,
                 size(mark.device_bytes), size(mark.host_bytes));
    }
    if (summary_.mark_count > rows) lines.add("  … {} more", grouped(summary_.mark_count - rows));
    return lines;
  }
  TextLines live_at_exit() const {
    if (summary_.live_at_exit.empty()) return none();
    TextLines lines =
        section("LIVE AT EXIT", summary_.quality.log_complete ? "" : "at the last event");
    for (const Holder& holder : summary_.live_at_exit)
      lines.parts().row({size(holder.bytes), "", count_text(holder)}, holder.title,
                        fmt::format("  [{}]", holder.kind), holder.telling_part);
    return lines;
  }
  TextLines temporaries() const {
    if (summary_.temporaries.empty()) return none();
    TextLines lines = section("TEMPORARY", "blocks freed right after their allocation");
    for (const Holder& holder : summary_.temporaries)
      lines.line("{} blocks  {}  [{}]", right(count_text(holder), 12), holder.title, holder.kind);
    return lines;
  }
  /// Which verbs show more.
  TextLines more() const {
    TextLines lines = none();
    lines.add("");
    const std::string log = quoted(summary_.log_path);
    std::string text = "in depth: gpupeak report --full " + log;
    if (!summary_.live_at_exit.empty()) text += " | live at exit: gpupeak leaks " + log;
    if (!summary_.temporaries.empty()) text += " | freed at once: gpupeak temporary " + log;
    lines.wrap(text, faint);
    std::string next;
    for (const Verdict::Step& step : verdict_.next) {
      if (step.page && page_template().empty()) continue;
      next += fmt::format("{}{}: {}", next.empty() ? "" : " | ", step.why, step.command);
    }
    if (!next.empty()) lines.wrap(next, faint);
    return lines;
  }

  const Verdict& the_verdict() const { return verdict_; }

 private:
  TextLines none() const { return TextLines(style_, 2, 7, 60); }
  TextLines section(std::string_view name, std::string_view what) const {
    TextLines lines = none();
    lines.add("");
    lines.heading(name, what);
    return lines;
  }
  /// The driver's memory pools: what they had reserved, which was read now and then.
  void add_driver_pools(TextLines& lines) const {
    for (const DriverPoolsSummary& pools : summary_.driver_pools) {
      lines.line("  cudaMallocAsync on GPU {}  {} reserved at most, {} of it in use then, {}",
                 pools.device, size(pools.reserved_peak_bytes), size(pools.in_use_bytes),
                 instant(pools.time_ns));
      lines.line("    at the end {} reserved; taken for:", size(pools.reserved_bytes));
      for (const ArenaSummary::Cause& cause : pools.causes)
        add_apart(cause.bytes, grouped(cause.segments), cause.title, lines);
      if (pools.other_cause_bytes > 0) add_apart(pools.other_cause_bytes, "", "more", lines);
    }
  }
  std::string size(const std::optional<uint64_t>& bytes) const { return size_text(bytes, style_); }
  /// A row of what is no part of the peak.
  void add_apart(uint64_t bytes, const std::string& count, const std::string& title,
                 TextLines& lines) const {
    lines.parts().line({size(bytes), "", count}, title);
  }
  void add_failure(const FailureGroup& group, bool with_why, TextLines& lines) const {
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
    lines.line("  {}  {}{}{}: {}{}", instant(oom.time_ns), oom.api, asked, where, result, times);
    lines.line("    held {}, free {}, would have fitted {}{}", size(oom.live_bytes),
               size(oom.driver_free_bytes), size(oom.largest_fit_bytes),
               slack.empty() ? "" : "; held and not in use: " + slack);
    lines.line("    at " + oom.title);
    const std::string why = with_why ? why_text(oom, style_) : "";
    if (!why.empty()) {
      lines.wrap("    why: " + why);
      if (const std::string help = help_text(oom, style_); !help.empty())
        lines.wrap("    try: " + help);
    }
    if (oom.ledger)
      lines.line("    nvidia-smi: {}",
                 ledger_sum_text(*oom.ledger, oom.ledger->used_bytes / 1000, style_));
    for (const Holder& holder : first_of(oom.holders, kMaxFailureHolders))
      lines.line("    {} held by {}", size(holder.bytes), holder.title);
  }

  const Summary& summary_;
  const TextStyle& style_;
  const Verdict verdict_;
};

constexpr size_t kMaxMarks = 20;

/// A section of the one screen: how many rows it has at first, how many it keeps while other
/// sections have rows to spare, and how many remain if nothing else helps.
struct Section {
  size_t rows, least;
  std::function<TextLines(size_t rows)> lines;
  size_t last = least;
};

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
  const auto host = [&](size_t rows) { return report.holders("host", "host memory", rows); };
  std::vector<Section> sections{
      {0, 0, [&](size_t) { return report.verdict(false); }},
      {2, 1, [&](size_t rows) { return report.failures(rows); }},
      {8, 0, [&](size_t rows) { return report.devices(rows); }},
      {6, 4, [&](size_t rows) { return report.tags(rows); }, 1},
  };
  const auto add = [&](size_t rows, size_t least, std::function<TextLines(size_t)> lines) {
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
  add(3, 0, [&](size_t rows) { return report.growth(rows); });
  if (device != nullptr) add(3, 0, host);
  add(3, 0, [&](size_t rows) { return report.marks(rows); });
  add(0, 0, [&](size_t) { return report.more(); });

  std::vector<TextLines> texts =
      list_of(sections, [](const Section& section) { return section.lines(section.rows); });
  while (sum_of(texts, &TextLines::count) > kReportLines) {
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
    texts[widest] = sections[widest].lines(--sections[widest].rows);
  }
  for (const TextLines& text : texts) text.write(out);
}

void write_all(const Summary& summary, const ReportSections& report, std::ostream& out) {
  TextLines text = report.verdict(true);
  text.add(report.failures());
  text.add(report.devices());
  text.add(report.tags());
  for (const DeviceSummary& device : summary.devices) {
    text.add(report.grown_pool(device));
    text.add(report.holders(scope_of(device), what_of(device)));
    for (const Composition& kind : beyond_the_sum(summary, device))
      text.add(report.holders(kind.scope, kind.what));
    text.add(report.lowering(device));
  }
  if (summary.devices.size() > 1) {
    const auto sum = metric(summary.metrics, "device.sum_of_peaks_bytes");
    text.add(report.holders(
        "device", fmt::format("all GPUs together (their own peaks: {})", text.size(sum))));
  }
  text.add(report.holders("host", "host memory"));
  if (summary.find_peak("host") == nullptr)
    text.add(report.holders("host/pinned", "pinned host memory"));
  text.add(report.growth());
  text.add(report.arenas());
  for (const DeviceSummary& device : summary.devices) {
    text.add(report.ledger(device));
    text.add(report.ledger_items(device));
  }
  text.add(report.resident());
  text.add(report.kinds());
  for (const bool of_device : {true, false}) text.add(report.phases(of_device, true));
  text.add(report.calls());
  text.add(report.marks(kMaxMarks));
  text.add(report.live_at_exit());
  text.add(report.temporaries());
  text.write(out);
}

}  // namespace

void write_text(const Summary& summary, std::ostream& out, const TextStyle& style,
                ReportLength length) {
  const ReportSections report(summary, style);
  if (length == ReportLength::kFull)
    write_all(summary, report, out);
  else
    write_one_screen(summary, report, out);
}

}  // namespace gpupeak::collector
