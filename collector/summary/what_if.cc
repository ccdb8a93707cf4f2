#include "collector/summary/what_if.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/text/sanitize.h"

namespace gpupeak::collector {

std::string_view setting_name(PoolSetting setting) {
  switch (setting) {
    case PoolSetting::kExpandableSegments:
      return "expandable_segments";
    case PoolSetting::kSameAsRequested:
      return "same_as_requested";
    case PoolSetting::kNoPreallocation:
      return "no_preallocation";
    case PoolSetting::kFreeAtLastUse:
      return "free_at_last_use";
    case PoolSetting::kWithoutUnused:
      return "without_unused";
    case PoolSetting::kTakeAtFirstUse:
      return "take_at_first_use";
    case PoolSetting::kOneForTwo:
      return "one_for_two";
  }
  return "";
}

std::string_view setting_text(PoolSetting setting) {
  switch (setting) {
    case PoolSetting::kExpandableSegments:
      return "PyTorch with expandable segments";
    case PoolSetting::kSameAsRequested:
      return "ONNX Runtime's arena as large as requested";
    case PoolSetting::kNoPreallocation:
      return "nothing taken in advance";
    case PoolSetting::kFreeAtLastUse:
      return "each block freed when it was last seen used";
    case PoolSetting::kWithoutUnused:
      return "without what was never seen used";
    case PoolSetting::kTakeAtFirstUse:
      return "each block taken when it was first seen used";
    case PoolSetting::kOneForTwo:
      return "one block for two that are never used at once";
  }
  return "";
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
  std::string text;
  for (const std::string& one : texts) text += (text.empty() ? "" : ", ") + one;
  return text.empty() ? "as recorded" : text;
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

}  // namespace gpupeak::collector
