#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <tuple>

#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"
#include "collector/log/log_head.h"
#include "collector/summary/run_text.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"
#include "collector/text/title_text.h"
#include "tools/top/top.h"

namespace gpupeak::tools {
namespace {

using collector::grouped;
using collector::size_text;
using collector::TextStyle;
using As = TopLine::Look;

/// "1.5 days", "12 min", "140 ms".
std::string span_text(double seconds) {
  if (seconds >= 86400) return fmt::format("{:.1f} days", seconds / 86400);
  if (seconds >= 7200) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 120) return fmt::format("{:.0f} min", seconds / 60);
  return collector::duration(static_cast<int64_t>(seconds * collector::kNsPerSecond));
}

std::string rate_text(const std::optional<double>& per_second) {
  return per_second ? grouped(static_cast<uint64_t>(std::llround(*per_second))) : "–";
}

/// Bytes a second, with their sign.
std::string growth_text(const std::optional<double>& growth, const TextStyle& style) {
  if (!growth) return "–";
  const auto bytes = static_cast<uint64_t>(std::llround(std::abs(*growth)));
  const char* sign = bytes == 0 ? "" : *growth < 0 ? "-" : "+";
  return sign + size_text(bytes, style);
}

std::string state_text(const TopProgram& program) {
  const FolderLog& log = program.log();
  if (log.state != collector::LogState::kEnded)
    return collector::kLogStates[static_cast<size_t>(log.state)];
  const std::string how = collector::exit_text(collector::run_end(log.head.counters));
  return how.empty() ? "ended" : how;
}

/// The fastest growth of the program's devices, or of its heap if it has none, in bytes a second,
/// and the seconds until the first of their cards is full.
std::optional<double> growth_of(const TopProgram& program) {
  std::optional<double> most;  // none is less than any
  if (program.devices().empty()) most = program.growth(program.heap_curve());
  for (const int32_t device : program.devices()) most = std::max(most, program.growth(device));
  return most;
}

std::optional<double> full_of(const TopProgram& program) {
  std::optional<double> soonest;
  for (const int32_t device : program.devices()) {
    const auto seconds = program.seconds_to_full(device);
    if (seconds) soonest = std::min(*seconds, soonest.value_or(*seconds));
  }
  return soonest;
}

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
  for (const collector::MemoryPoint& point : curve) {
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
                   As::kFaint});
  return lines;
}

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
  void add(const std::string& text, As look = As::kPlain) {
    const auto width = static_cast<size_t>(style_.width);
    lines_.push_back({style_.whole_lines ? text : collector::fit(text, width), look});
  }
  void add_row(std::string_view label, const std::string& text, As look = As::kPlain) {
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
    add(text + " · log " + size(log.bytes()), As::kBold);
  }

  void losses() {
    const gpupeak_counters_page& page = program_.log().head.counters;
    if (page.dropped_events > 0)
      add(fmt::format("{} EVENTS LOST: the figures are what was seen",
                      grouped(page.dropped_events)),
          As::kAlarm);
    if ((page.quality & GPUPEAK_Q_DEVICE_TABLE_FULL) != 0)
      add("DEVICE EVENTS LOST: the figures are what was seen", As::kAlarm);
    if ((page.quality & GPUPEAK_Q_LOG_MAX) != 0)
      add("the log has reached its limit: holders of the heap are estimates", As::kAlarm);
    const TopFindings* found = program_.findings();
    if (found != nullptr && !found->problem.empty()) add(found->problem, As::kAlarm);
    if (findings() != nullptr && findings()->oom_count > 0)
      add(fmt::format("{} REQUESTS REFUSED: gpupeak report says why",
                      grouped(findings()->oom_count)),
          As::kAlarm);
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
    add_row(fmt::format("GPU {}", device), text, As::kBold);
    kinds(device, live);
    draw(program_.curve(device));
    ledger(device);
    steps(device, card != nullptr ? card->total_bytes : 0, counters.total.peak);
  }

  void steps(std::optional<int32_t> device, uint64_t total, uint64_t held) {
    if (findings() == nullptr) return;
    const std::string text = collector::steps_text(findings()->growth, device, total, held, style_);
    if (!text.empty()) add_row("  growth", text);
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
      std::string text =
          fmt::format("{} in use {} at {} = {} tracked", size(reading.used_bytes),
                      reading.of_process ? "by the program" : "on the card",
                      span_text(static_cast<double>(reading.time_ns) / collector::kNsPerSecond),
                      size(reading.tracked_bytes));
      std::vector<collector::LedgerRow> rows = reading.rows;
      std::ranges::sort(rows, std::greater(), [](const auto& row) { return std::abs(row.bytes); });
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
    if (program_.host_peak() != nullptr) steps(std::nullopt, 0, program_.host_peak()->bytes);
  }

  /// The largest resident memory, with its causes where they were looked at, by the log's metrics.
  void resident() {
    constexpr size_t kMostCauses = 5;
    if (findings() == nullptr) return;
    const std::vector<collector::ResidentCause> causes =
        collector::resident_causes(findings()->metrics);
    if (causes.empty()) return;
    std::string text =
        "at most " + size(collector::sum_of(causes, &collector::ResidentCause::bytes));
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
              As::kFaint);
      return;
    }
    if (findings() == nullptr) return;
    const auto rows = holders_of(program_, view_);
    std::string text = are_of_peak(program_, view_) ? "who held it at the peak"
                       : program_.log().is_live()   ? "who holds it" + age()
                                                    : "who held it at the end";
    if (!view_.filter.empty()) text += fmt::format(" · filter: {}", view_.filter);
    if (view_.is_replaying) text += " · the log is being read";
    add_row("holders", text, As::kBold);
    const size_t chosen = std::min(view_.chosen, rows.empty() ? 0 : rows.size() - 1);
    const size_t room = rows_ > lines_.size() ? rows_ - lines_.size() : 0;
    size_t first = 0;
    if (view_.has_choice && !view_.shows_stack && room > 0 && chosen >= room)
      first = chosen - room + 1;
    for (size_t i = view_.shows_stack ? chosen : first; i < rows.size(); ++i) {
      holder(*rows[i], view_.has_choice && i == chosen);
      if (view_.shows_stack) return stack(*rows[i]);
    }
    if (rows.empty()) add_row("", "none", As::kFaint);
  }

  void holder(const collector::Holder& holder, bool chosen) {
    const std::string head = collector::right(size(holder.bytes), kLabelColumns) +
                             collector::right(grouped(holder.count), collector::kCountColumns) +
                             "  " + collector::left(holder.kind, 14) + " ";
    const size_t width = static_cast<size_t>(style_.width) - collector::display_width(head);
    add(head + collector::cut_title(holder.title, width, style_, holder.telling_part),
        chosen ? As::kChosen : As::kPlain);
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
    if (holder.stack.empty()) add("    no stack", As::kFaint);
  }

  const TopProgram& program_;
  const TopView& view_;
  const size_t rows_;
  const TextStyle& style_;
  TopLines lines_;
};

double order_of(const TopProgram& program, TopSort sort) {
  switch (sort) {
    case TopSort::kMemory:
      return static_cast<double>(program.device_live());
    case TopSort::kPeak:
      return static_cast<double>(program.device_peak());
    case TopSort::kGrowth:
      return growth_of(program).value_or(-INFINITY);
    case TopSort::kEvents:
      return program.events_per_second().value_or(-1);
    case TopSort::kName:
      break;
  }
  return 0;
}

constexpr double kEventSeconds = 5;  // the rate of events is that of the last 5 seconds

/// The curve of the replay, and behind it the curve of the looks.
TopCurve joined(TopCurve curve, const TopCurve& seen) {
  if (seen.empty()) return curve;
  // The replay knows the time before the first look; from then on the looks know more.
  const double begin = seen.front().seconds;
  std::erase_if(curve, [begin](const auto& point) { return point.seconds >= begin; });
  curve.insert(curve.end(), seen.begin(), seen.end());
  return curve;
}

}  // namespace

TopLines program_text(const TopProgram& program, const TopView& view, size_t rows,
                      const TextStyle& style) {
  return Page(program, view, rows, style).take();
}

void add_chart(const std::vector<uint64_t>& values, size_t rows, const TextStyle& style,
               TopLines& lines) {
  const uint64_t most = std::max<uint64_t>(1, *std::ranges::max_element(values));
  for (size_t row = rows; row-- > 0;) {
    std::string cells;
    for (const uint64_t value : values) cells += collector::bar_cell(value, most, rows, row);
    const std::string label = row + 1 == rows ? size_text(most, style) : std::string();
    lines.push_back({collector::right(label, kTopLabelColumns) + "│" + cells});
  }
}

bool contains(const std::string& text, const std::string& part) {
  const auto found = std::search(
      text.begin(), text.end(), part.begin(), part.end(),
      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  return found != text.end();
}

ptrdiff_t step_of(TopKey key, size_t page) {
  const auto far = static_cast<ptrdiff_t>(page);
  constexpr ptrdiff_t kAll = PTRDIFF_MAX / 2;
  const std::pair<TopKey, ptrdiff_t> steps[] = {{TopKey::kUp, -1},       {TopKey::kDown, 1},
                                                {TopKey::kPageUp, -far}, {TopKey::kPageDown, far},
                                                {TopKey::kHome, -kAll},  {TopKey::kEnd, kAll}};
  for (const auto& [of, step] : steps)
    if (of == key) return step;
  return 0;
}

bool type(const TopInput& input, std::string& text) {
  if (input.key == TopKey::kText && input.text != '\t') text += input.text;
  if (input.key == TopKey::kErase && !text.empty()) text.pop_back();
  if (input.key == TopKey::kBack) text.clear();
  return input.key != TopKey::kBack && input.key != TopKey::kEnter;
}

std::vector<const TopProgram*> arranged(const std::vector<TopProgram>& programs,
                                        const TopView& view) {
  std::vector<const TopProgram*> found;
  for (const TopProgram& program : programs) {
    const FolderLog& log = program.log();
    if (view.filter.empty() || contains(log.name + " " + log.facts.program, view.filter))
      found.push_back(&program);
  }
  std::ranges::sort(found, {}, [&](const TopProgram* of) {
    return std::tuple(!of->log().is_live(), -order_of(*of, view.sort),
                      std::string_view(of->log().name));
  });
  return found;
}

std::vector<const collector::Holder*> holders_of(const TopProgram& program, const TopView& view) {
  std::vector<const collector::Holder*> rows;
  const TopFindings* found = program.findings();
  if (found == nullptr) return rows;
  const auto take = [&](const std::vector<collector::Holder>& holders) {
    for (const collector::Holder& holder : holders) {
      if (view.filter.empty() || contains(holder.title + " " + holder.kind, view.filter))
        rows.push_back(&holder);
    }
  };
  if (are_of_peak(program, view)) {
    for (const collector::Peak& peak : found->summary.peaks) {
      const bool whole = peak.scope == "host" || collector::is_whole_device(peak.scope);
      if (whole) take(peak.holders);
    }
  } else {
    take(found->summary.live_at_exit);
  }
  // The GPU's rows come first: its memory is what runs out.
  std::ranges::stable_sort(rows, std::greater(), [](const auto* row) {
    return std::pair(row->kind.starts_with("device"), row->bytes);
  });
  return rows;
}

TopLines list_text(const std::vector<const TopProgram*>& programs, size_t in_all,
                   const TopView& view, const TextStyle& style) {
  constexpr size_t kSize = 11, kState = 11, kRate = 11, kFull = 9, kTellingName = 24;
  TopLines lines;
  const auto running =
      std::ranges::count_if(programs, [](const TopProgram* of) { return of->log().is_live(); });
  std::string title = programs.size() < in_all ? fmt::format("{} of ", programs.size()) : "";
  title += fmt::format("{} logs, {} of running programs · by {}", in_all, running,
                       kTopSorts[static_cast<size_t>(view.sort)]);
  if (!view.filter.empty()) title += fmt::format(" · filter: {}", view.filter);
  lines.push_back({title, As::kBold});
  const auto width = static_cast<size_t>(std::max(style.width, 80));
  size_t longest = 3;
  for (const TopProgram* program : programs)
    longest = std::max(longest, collector::display_width(program->log().name));
  // Names tell logs apart, so the last two columns make room for them.
  size_t others = kState + 4 * kSize;
  const auto has_room = [&](size_t column) {
    const bool fits =
        style.whole_lines || others + column + std::min(longest, kTellingName) < width;
    others += fits ? column : 0;
    return fits;
  };
  const bool with_rate = has_room(kRate), with_full = has_room(kFull);
  const size_t name = style.whole_lines ? longest : std::min(longest, width - others - 1);
  lines.push_back({collector::left("log", name) + collector::right("state", kState) +
                       collector::right("GPU now", kSize) + collector::right("peak", kSize) +
                       collector::right("heap", kSize) + collector::right("growth/s", kSize) +
                       (with_full ? collector::right("full in", kFull) : "") +
                       (with_rate ? collector::right("events/s", kRate) : ""),
                   As::kFaint});
  for (size_t i = 0; i < programs.size(); ++i) {
    const TopProgram& program = *programs[i];
    const bool live = program.log().is_live();
    const bool has_device = !program.devices().empty();
    const auto full = full_of(program);
    const gpupeak_counters_page& page = program.log().head.counters;
    std::string text = collector::left(collector::fit(program.log().name, name), name);
    text += collector::right(collector::fit(state_text(program), kState - 1), kState);
    text +=
        collector::right(live && has_device ? size_text(program.device_live(), style) : "–", kSize);
    // Of a program that was attached to, what it has had since then is the least.
    const uint64_t peak = has_device ? program.device_peak() : page.heap.peak;
    const bool is_least = !has_device && !program.has_heap();
    text += collector::right(
        is_least && peak == 0 ? "–" : (is_least ? "≥" : "") + size_text(peak, style), kSize);
    text += collector::right(live && program.has_heap() ? size_text(page.heap.live, style) : "–",
                             kSize);
    text += collector::right(growth_text(growth_of(program), style), kSize);
    if (with_full) text += collector::right(full ? span_text(*full) : "–", kFull);
    if (with_rate)
      text += collector::right(live ? rate_text(program.events_per_second()) : "–", kRate);
    As look = page.dropped_events > 0 ? As::kAlarm : live ? As::kPlain : As::kFaint;
    if (view.has_choice && i == view.chosen) look = As::kChosen;
    if (page.dropped_events > 0)
      text += fmt::format("  {} events lost", grouped(page.dropped_events));
    lines.push_back({text, look});
  }
  return lines;
}

void TopProgram::look(const FolderLog& log, double now) {
  const bool is_other = log.head.header.cookie != log_.head.header.cookie;
  if (is_other) *this = {};
  log_ = log;
  now_ = now;
}

std::optional<double> TopProgram::seconds() const {
  const gpupeak_file_header& header = log_.head.header;
  const gpupeak_counters_page& page = log_.head.counters;
  if (log_.is_live())
    return now_ - static_cast<double>(header.start_realtime_ns) / collector::kNsPerSecond;
  if (page.ended != 0 && page.end_monotonic_ns > header.start_monotonic_ns)
    return static_cast<double>(page.end_monotonic_ns - header.start_monotonic_ns) /
           collector::kNsPerSecond;
  if (findings_) return findings_->at_seconds;
  return std::nullopt;
}

std::vector<int32_t> TopProgram::devices() const {
  return collector::counted_devices(log_.head.counters);
}

const collector::DeviceInfo* TopProgram::info(int32_t number) const {
  for (const collector::DeviceInfo& info : log_.facts.devices) {
    if (static_cast<int32_t>(info.ordinal) == number) return &info;
  }
  return nullptr;
}

uint64_t TopProgram::device_live() const {
  if (!log_.is_live()) return 0;
  return collector::sum_of(devices(), [&](int32_t of) { return device(of).total.live; });
}

uint64_t TopProgram::device_peak() const {
  return collector::most_of(devices(), [&](int32_t of) { return device(of).total.peak; });
}

bool TopProgram::has_heap() const {
  return collector::coverage_of(log_.head.header, log_.head.counters).heap_counters;
}

TopCurve TopProgram::curve(int32_t device) const {
  return joined(findings_ ? collector::value_or(findings_->devices, device, {}) : TopCurve(),
                collector::value_or(log_.looks->devices, device, {}));
}

TopCurve TopProgram::heap_curve() const {
  // The looks count usable bytes, a replay requested bytes: these must not be mixed in one curve.
  if (log_.looks->heap.size() > 2 || !findings_) return log_.looks->heap;
  return findings_->heap;
}

std::optional<double> TopProgram::events_per_second() const {
  const TopCurve& events = log_.looks->events;
  if (events.size() < 2) return std::nullopt;
  const collector::MemoryPoint& last = events.back();
  auto first = events.end() - 2;
  while (first != events.begin() && last.seconds - first->seconds < kEventSeconds) --first;
  return static_cast<double>(last.bytes - first->bytes) / (last.seconds - first->seconds);
}

const collector::Peak* TopProgram::host_peak() const {
  return findings_ ? findings_->summary.find_peak("host") : nullptr;
}

std::optional<uint64_t> TopProgram::used(int32_t device) const {
  if (!findings_ || !log_.is_live()) return std::nullopt;
  for (const collector::DeviceSummary& of : findings_->summary.devices) {
    if (of.ordinal != device || !of.ledger) continue;
    const collector::LedgerView& reading = of.ledger->at_exit;
    const uint64_t others =
        reading.card_used_bytes - std::min(reading.card_used_bytes, reading.tracked_bytes);
    return others + this->device(device).total.live;
  }
  return std::nullopt;
}

std::optional<double> TopProgram::seconds_to_full(int32_t device) const {
  const std::optional<double> growth = this->growth(device);
  const collector::DeviceInfo* card = info(device);
  if (!growth || card == nullptr || card->total_bytes == 0) return std::nullopt;
  // An integrated GPU's memory is also the host's, which takes some of it.
  if ((card->memory & GPUPEAK_MEMORY_INTEGRATED) != 0) return std::nullopt;
  const uint64_t live = used(device).value_or(this->device(device).total.live);
  // At a slower growth it takes longer than anybody waits.
  constexpr double kLeast = 1024;
  if (*growth < kLeast || live > card->total_bytes) return std::nullopt;
  return static_cast<double>(card->total_bytes - live) / *growth;
}

}  // namespace gpupeak::tools
