#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "collector/log/kinds.h"
#include "collector/summary/run_text.h"
#include "collector/text/sanitize.h"
#include "collector/text/title_text.h"
#include "tools/top/top.h"

namespace gpupeak::tools {
namespace {

// Memory over time as lines of text.

constexpr size_t kCurveRows = 5;

/// The curve, as wide as `style` says. Each column shows the largest value of its time. Empty if
/// there are fewer than two points.
TopLines curve_text(const TopCurve& curve, const collector::TextStyle& style) {
  TopLines lines;
  const size_t columns = static_cast<size_t>(style.width) - kTopLabelColumns - 2;
  if (curve.size() < 2) return lines;
  const double begin = curve.front().seconds, end = curve.back().seconds;
  std::vector<uint64_t> values(columns);
  uint64_t current = 0;
  size_t at = 0;
  for (const CurvePoint& point : curve) {
    const double part = end > begin ? (point.seconds - begin) / (end - begin) : 0;
    const auto column =
        static_cast<size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(columns));
    // The value stays as it was until the next point.
    while (at < std::min(columns - 1, column)) values[++at] = current;
    current = point.bytes;
    values[at] = std::max(values[at], current);
  }
  add_chart(values, kCurveRows, style, lines);
  lines.push_back({collector::right(span_text(begin), kTopLabelColumns) + "└" +
                       collector::right(span_text(end), columns),
                   TopLine::Look::kFaint});
  return lines;
}

using collector::grouped;
using collector::size_text;
using collector::TextStyle;
using Look = TopLine::Look;

constexpr size_t kLabelColumns = kTopLabelColumns, kStackFrames = 40, kMostPhases = 6,
                 kMostRows = 4;

/// One program, part by part.
class Page {
 public:
  Page(const TopProgram& program, const TopView& view, size_t rows, const TextStyle& style)
      : program_(program), view_(view), rows_(rows), style_(style) {}

  TopLines take() {
    heading();
    losses();
    for (const int32_t device : program_.devices()) show_device(device);
    host();
    if (program_.devices().empty()) draw(program_.heap_curve());
    if (findings() != nullptr) {
      phases();
      arenas();
    }
    holders();
    if (lines_.size() > rows_) lines_.resize(rows_);
    return std::move(lines_);
  }

 private:
  using Summary = collector::Summary;
  const Summary* findings() const {
    const TopFindings* found = program_.findings();
    return found != nullptr && found->problem.empty() ? &found->summary : nullptr;
  }
  std::string size(uint64_t bytes) const { return size_text(bytes, style_); }
  void add(const std::string& text, Look look = Look::kPlain) {
    const auto width = static_cast<size_t>(style_.width);
    lines_.push_back({style_.whole_lines ? text : collector::fit(text, width), look});
  }
  void add_row(std::string_view label, const std::string& text, Look look = Look::kPlain) {
    add(collector::left(label, kLabelColumns) + text, look);
  }

  void heading() {
    const FolderLog& log = program_.log();
    std::string text = log.name;
    if (!log.facts.program.empty()) text += "  " + collector::escape(log.facts.program);
    text += fmt::format("  pid {}", log.head.header.pid);
    if (log.head.header.rank >= 0) text += fmt::format("  rank {}", log.head.header.rank);
    text += "  " + state_text(program_);
    if (const auto seconds = program_.seconds())
      text += (log.is_live() ? " " : ", ") + span_text(*seconds);
    if (const auto rate = program_.events_per_second())
      text += fmt::format(" · {} events/s", rate_text(rate));
    add(text + " · log " + size(log.bytes()), Look::kBold);
  }

  void losses() {
    const gpupeak_counters_page& page = program_.log().head.counters;
    if (page.dropped_events > 0)
      add(fmt::format("{} EVENTS LOST: the figures are what was seen",
                      grouped(page.dropped_events)),
          Look::kAlarm);
    if ((page.quality & GPUPEAK_Q_DEVICE_TABLE_FULL) != 0)
      add("DEVICE EVENTS LOST: the figures are what was seen", Look::kAlarm);
    if ((page.quality & GPUPEAK_Q_LOG_MAX) != 0)
      add("the log has reached its limit: holders of the heap are estimates", Look::kAlarm);
    const TopFindings* found = program_.findings();
    if (found != nullptr && !found->problem.empty()) add(found->problem, Look::kAlarm);
    if (findings() != nullptr && findings()->oom_count > 0)
      add(fmt::format("{} REQUESTS REFUSED: gpupeak report says why",
                      grouped(findings()->oom_count)),
          Look::kAlarm);
  }

  void show_device(int32_t device) {
    const gpupeak_device_counters& counters = program_.device(device);
    const collector::DeviceInfo* card = program_.info(device);
    const bool live = program_.log().is_live();
    std::string text = live ? size(counters.total.live) : "ended with " + size(counters.total.live);
    if (card != nullptr && card->total_bytes > 0) text += " of " + size(card->total_bytes);
    if (card != nullptr && (card->memory & GPUPEAK_MEMORY_INTEGRATED) != 0)
      text += " that the host shares";
    text += ", peak " + size(counters.total.peak);
    if (const auto growth = program_.growth(device))
      text += fmt::format(" · {}/s", growth_text(growth, style_));
    if (const auto seconds = program_.seconds_to_full(device)) {
      text += fmt::format(" · full in {}", span_text(*seconds));
      if (!program_.used(device)) text += ", of this program alone";
    }
    if (card != nullptr && !card->name.empty()) text += " · " + collector::escape(card->name);
    add_row(fmt::format("GPU {}", device), text, Look::kBold);
    kinds(device, live);
    draw(program_.curve(device));
    ledger(device);
    if (findings() == nullptr) return;
    const std::string steps =
        collector::steps_text(findings()->growth, device, card != nullptr ? card->total_bytes : 0,
                              counters.total.peak, style_);
    if (!steps.empty()) add_row("  growth", steps);
  }

  void kinds(int32_t device, bool live) {
    const gpupeak_counters_page& page = program_.log().head.counters;
    std::string text;
    for (uint8_t kind = GPUPEAK_FIRST_DEVICE_KIND; kind < GPUPEAK_KIND_LIMIT; ++kind) {
      const gpupeak_gauge& gauge = device_gauge(page, static_cast<uint32_t>(device), kind);
      if (gauge.peak == 0) continue;
      text += fmt::format("{}{} {}", text.empty() ? "" : " · ", collector::kind_name(kind),
                          live ? size(gauge.live) : "peak " + size(gauge.peak));
      if (live && gauge.peak > gauge.live) text += fmt::format(" (peak {})", size(gauge.peak));
    }
    if (!text.empty()) add_row("", text);
  }

  void draw(const TopCurve& curve) {
    for (TopLine& line : curve_text(curve, style_)) add(line.text, line.look);
  }

  void ledger(int32_t device) {
    if (findings() == nullptr) return;
    for (const collector::DeviceSummary& of : findings()->devices) {
      if (of.ordinal != device || !of.ledger) continue;
      const collector::LedgerView& reading = of.ledger->at_exit;
      std::string text = fmt::format("{} in use {} at {} = {} tracked", size(reading.used_bytes),
                                     reading.of_process ? "by the program" : "on the card",
                                     span_text(static_cast<double>(reading.time_ns) / kNsPerSecond),
                                     size(reading.tracked_bytes));
      std::vector<collector::LedgerRow> rows = reading.rows;
      std::ranges::sort(
          rows, [](const auto& a, const auto& b) { return std::abs(a.bytes) > std::abs(b.bytes); });
      for (const collector::LedgerRow& row : rows) {
        if (row.bytes != 0)
          text += fmt::format(" {} {} {}", row.bytes < 0 ? "-" : "+",
                              size(static_cast<uint64_t>(std::abs(row.bytes))), row.cause);
      }
      add_row("  ledger", text + collector::others_text(reading, style_));
    }
  }

  void host() {
    const gpupeak_counters_page& page = program_.log().head.counters;
    const bool live = program_.log().is_live();
    std::string text;
    const auto part = [&](std::string_view name, const gpupeak_gauge& gauge) {
      if (!text.empty()) text += " · ";
      text += fmt::format("{} {}", name, live ? size(gauge.live) + ", " : "");
      text += "peak " + size(gauge.peak);
    };
    if (program_.has_heap()) part("heap", page.heap);
    if (const collector::Peak* peak = program_.host_peak(); peak != nullptr && text.empty())
      text = "of what was recorded: peak " + size(peak->bytes);
    if (page.pinned.peak > 0) part("pinned", page.pinned);
    if (page.managed.peak > 0) part("managed", page.managed);
    if (page.rss_peak_bytes > 0)
      text += (text.empty() ? "" : " · ") + ("RSS peak " + size(page.rss_peak_bytes));
    if (program_.devices().empty()) {
      if (const auto growth = program_.growth(program_.heap_curve()))
        text += fmt::format(" · {}/s", growth_text(growth, style_));
    }
    add_row("host", text.empty() ? "not measured" : text);
    resident();
  }

  /// The largest resident memory, with its causes where they were looked at, by the log's metrics.
  void resident() {
    constexpr size_t kMostCauses = 5;
    if (findings() == nullptr) return;
    const auto total = collector::metric(findings()->metrics, "host.resident.total_bytes");
    const std::vector<collector::ResidentCause> causes =
        collector::resident_causes(findings()->metrics);
    if (!total || causes.empty()) return;
    std::string text = "at most " + size(*total);
    for (size_t i = 0; i < std::min(causes.size(), kMostCauses); ++i)
      text += fmt::format("{} {} {}", i == 0 ? ":" : " ·", causes[i].text, size(causes[i].bytes));
    if (causes.size() > kMostCauses) text += " …";
    add_row("resident", text);
  }

  void phases() {
    std::string text;
    size_t count = 0;
    for (const collector::PhaseSummary& phase : findings()->phases) {
      if (phase.end_ns || ++count > kMostPhases) continue;
      text += (text.empty() ? "" : " > ") + phase.name;
      if (phase.count > 1) text += fmt::format("[{}]", phase.count);
    }
    if (!text.empty()) add_row("phase", text);
  }

  void arenas() {
    size_t count = 0;
    for (const collector::ArenaSummary& arena : findings()->arenas) {
      if (arena.reserved_bytes == 0 && arena.live_bytes == 0) continue;
      if (++count > kMostRows) break;
      std::string where = arena.device    ? fmt::format(" on GPU {}", *arena.device)
                          : arena.on_host ? " on the host"
                                          : "";
      add_row(count == 1 ? "pools" : "",
              fmt::format("{}{}: {} in use{}, peak {}", arena.name, where, size(arena.live_bytes),
                          arena.older ? " since the attach" : " of " + size(arena.reserved_bytes),
                          size(arena.peak_bytes)));
    }
  }

  std::string age() const {
    const TopFindings* found = program_.findings();
    const auto now = program_.seconds();
    if (found == nullptr || !program_.log().is_live() || !now) return "";
    return fmt::format(", {} ago", span_text(std::max(0.0, *now - found->at_seconds)));
  }

  void holders() {
    const TopFindings* found = program_.findings();
    if (found == nullptr) {
      add_row("holders",
              view_.is_replaying ? "the log is being read"
                                 : fmt::format("not yet read; r: read the log, some {}",
                                               span_text(std::max(0.1, view_.replay_seconds))),
              Look::kFaint);
      return;
    }
    if (findings() == nullptr) return;
    const auto rows = holders_of(program_, view_);
    std::string text = are_of_peak(program_, view_) ? "who held it at the peak"
                       : program_.log().is_live()   ? "who holds it" + age()
                                                    : "who held it at the end";
    if (!view_.filter.empty()) text += fmt::format(" · filter: {}", view_.filter);
    if (view_.is_replaying) text += " · the log is being read";
    add_row("holders", text, Look::kBold);
    const size_t chosen = std::min(view_.chosen, rows.empty() ? 0 : rows.size() - 1);
    const size_t room = rows_ > lines_.size() ? rows_ - lines_.size() : 0;
    size_t first = 0;
    if (view_.has_choice && !view_.shows_stack && room > 0 && chosen >= room)
      first = chosen - room + 1;
    for (size_t i = view_.shows_stack ? chosen : first; i < rows.size(); ++i) {
      holder(*rows[i], view_.has_choice && i == chosen);
      if (view_.shows_stack) return stack(*rows[i]);
    }
    if (rows.empty()) add_row("", "none", Look::kFaint);
  }

  void holder(const collector::Holder& holder, bool chosen) {
    const std::string head = collector::right(size(holder.bytes), kLabelColumns) +
                             collector::right(grouped(holder.count), collector::kCountColumns) +
                             "  " + collector::left(holder.kind, 14) + " ";
    const size_t width = static_cast<size_t>(style_.width) - collector::display_width(head);
    add(head + collector::cut_title(holder.title, width, style_, holder.telling_part),
        chosen ? Look::kChosen : Look::kPlain);
  }

  void stack(const collector::Holder& holder) {
    size_t count = 0;
    for (const collector::Frame& frame : holder.stack) {
      if (++count > kStackFrames) break;
      std::string text = frame.function.empty()
                             ? fmt::format("{}+{:#x}", frame.module, frame.offset)
                             : frame.function;
      if (!frame.file.empty())
        text += fmt::format("  {}:{}", frame.file, frame.line);
      else if (!frame.function.empty() && !frame.module.empty())
        text += "  " + frame.module;
      add("    " + text);
    }
    if (holder.stack.empty()) add("    no stack", Look::kFaint);
  }

  const TopProgram& program_;
  const TopView& view_;
  const size_t rows_;
  const TextStyle& style_;
  TopLines lines_;
};

}  // namespace

TopLines program_text(const TopProgram& program, const TopView& view, size_t rows,
                      const TextStyle& style) {
  return Page(program, view, rows, style).take();
}

}  // namespace gpupeak::tools
