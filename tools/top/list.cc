#include <fmt/format.h>

#include <algorithm>

#include "tools/top/text.h"
#include "tools/top/words.h"

namespace gpupeak::tools {

using collector::grouped;
using collector::size_text;
using collector::TextStyle;
using Look = TopLine::Look;

TopLines list_text(const std::vector<const TopProgram*>& programs, size_t in_all,
                   const TopView& view, const TextStyle& style) {
  constexpr size_t kSize = 11, kState = 11, kRate = 11, kFull = 9;
  TopLines lines;
  const auto running = std::count_if(programs.begin(), programs.end(),
                                     [](const TopProgram* of) { return of->log().is_live(); });
  std::string title = programs.size() < in_all ? fmt::format("{} of ", programs.size()) : "";
  title += fmt::format("{} logs, {} of running programs · by {}", in_all, running,
                       kTopSorts[static_cast<size_t>(view.sort)]);
  if (!view.filter.empty()) title += fmt::format(" · filter: {}", view.filter);
  lines.push_back({title, Look::kBold});
  const size_t others = kState + 3 * kSize + kRate + kFull + kSize;
  const auto width = static_cast<size_t>(std::max(style.width, 80));
  size_t longest = 3;
  for (const TopProgram* program : programs)
    longest = std::max(longest, collector::display_width(program->log().name));
  const size_t name = style.whole_lines ? longest : std::min(longest, width - others - 1);
  lines.push_back({collector::left("log", name) + collector::right("state", kState) +
                       collector::right("GPU now", kSize) + collector::right("peak", kSize) +
                       collector::right("heap", kSize) + collector::right("growth/s", kSize) +
                       collector::right("full in", kFull) + collector::right("events/s", kRate),
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
    const bool has_peak = has_device || program.has_heap();
    text += collector::right(
        has_peak ? size_text(has_device ? program.device_peak() : page.heap.peak, style) : "–",
        kSize);
    text += collector::right(live && program.has_heap() ? size_text(page.heap.live, style) : "–",
                             kSize);
    text += collector::right(growth_text(growth_of(program), style), kSize);
    text += collector::right(full ? span_text(*full) : "–", kFull);
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
