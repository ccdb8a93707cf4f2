#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "collector/analyze/summary_parts.h"
#include "collector/summary/run_text.h"
#include "collector/text/scope_key.h"
#include "tools/top/top.h"

namespace gpupeak::tools {

using collector::grouped;
using collector::size_text;
using collector::TextStyle;

std::string span_text(double seconds) {
  if (seconds >= 86400) return fmt::format("{:.1f} days", seconds / 86400);
  if (seconds >= 7200) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 120) return fmt::format("{:.0f} min", seconds / 60);
  return collector::duration(static_cast<int64_t>(seconds * kNsPerSecond));
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

std::string rate_text(const std::optional<double>& per_second) {
  return per_second ? grouped(static_cast<uint64_t>(std::llround(*per_second))) : "–";
}

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

namespace {

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

}  // namespace

std::vector<const TopProgram*> arranged(const std::vector<TopProgram>& programs,
                                        const TopView& view) {
  std::vector<const TopProgram*> found;
  for (const TopProgram& program : programs) {
    const FolderLog& log = program.log();
    if (view.filter.empty() || contains(log.name + " " + log.facts.program, view.filter))
      found.push_back(&program);
  }
  std::ranges::sort(found, [&](const TopProgram* a, const TopProgram* b) {
    const bool live_a = a->log().is_live(), live_b = b->log().is_live();
    if (live_a != live_b) return live_a;
    const double of_a = order_of(*a, view.sort), of_b = order_of(*b, view.sort);
    return of_a != of_b ? of_a > of_b : a->log().name < b->log().name;
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
  std::ranges::stable_sort(rows, [](const auto* a, const auto* b) {
    const bool device_a = a->kind.starts_with("device"), device_b = b->kind.starts_with("device");
    return device_a != device_b ? device_a : a->bytes > b->bytes;
  });
  return rows;
}

using Look = TopLine::Look;

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
  lines.push_back({title, Look::kBold});
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
                   Look::kFaint});
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
    Look look = page.dropped_events > 0 ? Look::kAlarm : live ? Look::kPlain : Look::kFaint;
    if (view.has_choice && i == view.chosen) look = Look::kChosen;
    if (page.dropped_events > 0)
      text += fmt::format("  {} events lost", grouped(page.dropped_events));
    lines.push_back({text, look});
  }
  return lines;
}

}  // namespace gpupeak::tools
