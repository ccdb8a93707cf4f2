#include "collector/summary/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "collector/text/sanitize.h"

namespace gpupeak::collector {

std::string_view setting_name(PoolSetting setting) {
  constexpr std::string_view kNames[] = {
      "expandable_segments", "same_as_requested", "no_preallocation", "free_at_last_use",
      "without_unused",      "take_at_first_use", "one_for_two"};
  return kNames[static_cast<size_t>(setting)];
}

std::string_view setting_text(PoolSetting setting) {
  constexpr std::string_view kNames[] = {"PyTorch with expandable segments",
                                         "ONNX Runtime's arena as large as requested",
                                         "nothing taken in advance",
                                         "each block freed when it was last seen used",
                                         "without what was never seen used",
                                         "each block taken when it was first seen used",
                                         "one block for two that are never used at once"};
  return kNames[static_cast<size_t>(setting)];
}

std::string setting_text(PoolSetting setting, const std::string& about) {
  return std::string(setting_text(setting)) + (about.empty() ? "" : ": " + about);
}

std::string changes_text(const Changes& changes) {
  std::vector<std::string> texts;
  for (const Changes::Scale& scale : changes.scales) {
    texts.push_back(scale.factor == 0
                        ? fmt::format("without '{}'", escape(scale.pattern))
                        : fmt::format("'{}' times {}", escape(scale.pattern), scale.factor));
  }
  for (const PoolSetting setting : changes.settings()) {
    const bool of_two = setting == PoolSetting::kOneForTwo;
    texts.push_back(setting_text(setting, of_two ? changes.one_for_two->titles : ""));
  }
  return texts.empty() ? "as recorded" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string bounds_text(uint64_t least, const std::optional<uint64_t>& most,
                        const TextStyle& style) {
  if (!most) return "at least " + size_text(least, style);
  const std::string from = size_text(least, style), to = size_text(*most, style);
  if (from != to) return fmt::format("{} to {}", from, to);
  return *most == least ? from : "about " + from;
}

std::string gain_text(uint64_t before, uint64_t least, const std::optional<uint64_t>& most) {
  const uint64_t after = most.value_or(least);
  if (after == before) return "no change";
  const uint64_t by = after > before ? after - before : before - after;
  return fmt::format("{}{}{} %", most ? "" : "at most ", after > before ? "+" : "−",
                     percent(by, std::max(before, by)));
}

std::string lowering_row(uint64_t before, uint64_t least, const std::optional<uint64_t>& most,
                         const std::string& change, const TextStyle& style) {
  return fmt::format("  {}  {}  {}", left(bounds_text(least, most, style), 22),
                     right(gain_text(before, least, most), 8), change);
}

}  // namespace gpupeak::collector
