#include "collector/write/report_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>

#include "collector/summary/failure_text.h"
#include "collector/summary/ledger_text.h"
#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/summary/what_if.h"
#include "collector/summary/whole_run_text.h"
#include "collector/text/scope_key.h"
#include "collector/text/title_text.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

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

}  // namespace

ReportSections::ReportSections(const Summary& summary, const TextStyle& style)
    : summary_(summary),
      style_(style),
      width_(static_cast<size_t>(std::max(style.width, 60))),
      columns_(size_columns(style)),
      verdict_(verdict_of(summary, style)) {}

std::string ReportSections::heading(std::string_view name, const std::string& rest) const {
  const size_t used = name.size() + 2;
  return bold(name, style_) +
         (rest.empty() ? "" : "  " + cut(rest, width_ > used ? width_ - used : 0, style_));
}

std::string ReportSections::row(uint64_t bytes, uint64_t whole, const std::string& count,
                                const std::string& title, const std::string& marks,
                                size_t telling) const {
  const std::string figures = fmt::format("{} {} {}  ", right(size_text(bytes, style_), columns_),
                                          right(percent(bytes, whole), 5), right(count, 7));
  const size_t used = display_width(figures) + display_width(marks);
  const size_t room = width_ > used ? width_ - used : 0;
  return line(figures + cut_title(title, room, style_, telling) + marks);
}

void ReportSections::add_wrapped(const std::string& text, Lines& lines) const {
  for (std::string& one : wrapped(text, width_, 2, style_)) lines.push_back(std::move(one));
}

ReportSections::Lines ReportSections::verdict(bool full) const {
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
    say("clock", "the kernel does not keep time by the TSC: time stamps cost more, and are exact");
  for (const Warning& warning : summary_.quality.warnings)
    lines.push_back(fmt::format("  {}  {}", code_text(warning.code), warning.message));
  return lines;
}

ReportSections::Lines ReportSections::failure(const FailureGroup& group, bool with_why) const {
  const OutOfMemory& oom = *group.last;
  const std::string where = oom.device ? fmt::format(" on GPU {}", *oom.device) : "";
  const std::string times = group.count > 1 ? fmt::format(", {} times", grouped(group.count)) : "";
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

ReportSections::Lines ReportSections::failures(size_t rows) const {
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

ReportSections::Lines ReportSections::tags(size_t rows) const {
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

ReportSections::Lines ReportSections::devices(size_t rows) const {
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
    lines.push_back(line(fmt::format(
        "{}  {} of {} at {}{}", right(size(peak->bytes), columns_), device_text(device),
        size(device.total_bytes), peak_instant(*peak), peak->phase ? ", in " + *peak->phase : "")));
  }
  return lines;
}

ReportSections::Lines ReportSections::holders(const std::string& scope, const std::string& what,
                                              size_t rows) const {
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

ReportSections::Lines ReportSections::lowering(const DeviceSummary& device, size_t rows) const {
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
        "  {}  {}  {}", left(bounds_text(row.least_bytes, row.most_bytes, style_), kBoundsColumns),
        right(gain_text(lowering->before_bytes, row.least_bytes, row.most_bytes), kGainColumns),
        setting_text(row.setting, row.about))));
  }
  if (!fits) add_wrapped("  " + sites, lines);
  return lines;
}

ReportSections::Lines ReportSections::ledger(const DeviceSummary& device, size_t rows) const {
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

ReportSections::Lines ReportSections::ledger_items(const DeviceSummary& device) const {
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

ReportSections::Lines ReportSections::kinds() const {
  Lines lines{"", heading("PEAKS BY KIND", "each at its own time; they do not add up")};
  for (const auto& [name, value] : summary_.metrics) {
    if (!name.ends_with("peak_bytes") && !name.ends_with("reserved_va_bytes")) continue;
    if (value.value_or(0) > 0)
      lines.push_back(fmt::format("{}  {}", right(size(value), columns_), name));
  }
  return lines;
}

ReportSections::Lines ReportSections::resident() const {
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

ReportSections::Lines ReportSections::live_at_exit() const {
  if (summary_.live_at_exit.empty()) return {};
  Lines lines{"",
              heading("LIVE AT EXIT", summary_.quality.log_complete ? "" : "at the last event")};
  for (const Holder& holder : summary_.live_at_exit) {
    const std::string mark = fmt::format("  [{}]", holder.kind);
    const std::string figures = fmt::format("{} {} {}  ", right(size(holder.bytes), columns_),
                                            right("", 5), right(count_text(holder), 7));
    const size_t used = display_width(figures) + mark.size();
    lines.push_back(
        figures +
        cut_title(holder.title, width_ > used ? width_ - used : 0, style_, holder.telling_part) +
        mark);
  }
  return lines;
}

ReportSections::Lines ReportSections::temporaries() const {
  if (summary_.temporaries.empty()) return {};
  Lines lines{"", heading("TEMPORARY", "blocks freed right after their allocation")};
  for (const Holder& holder : summary_.temporaries)
    lines.push_back(line(fmt::format("{} blocks  {}  [{}]", right(count_text(holder), 12),
                                     holder.title, holder.kind)));
  return lines;
}

ReportSections::Lines ReportSections::more() const {
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

}  // namespace gpupeak::collector
