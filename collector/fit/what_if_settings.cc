#include "collector/fit/what_if_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/summary/arena_text.h"
#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

bool is_torch_pool(const ArenaSummary& arena) {
  return arena.device.has_value() && arena.name == "PyTorch";
}
bool is_ort_arena(const ArenaSummary& arena) {
  return arena.device.has_value() && arena.name.starts_with("ONNX Runtime");
}
bool took_in_advance(const ArenaSummary& arena) {
  return arena.device.has_value() && was_taken_in_advance(arena);
}

}  // namespace

void require_arenas(const Summary& summary, const Changes& changes) {
  const auto require = [&](bool is_asked, bool (*is)(const ArenaSummary&), const char* text) {
    if (is_asked && std::none_of(summary.arenas.begin(), summary.arenas.end(), is))
      throw UsageError(text);
  };
  require(changes.expandable_segments, is_torch_pool,
          "--expandable-segments: the log has no pool of PyTorch's on a GPU");
  require(changes.same_as_requested, is_ort_arena,
          "--arena same-as-requested: the log has no arena of ONNX Runtime's on a GPU");
  require(changes.no_preallocation, took_in_advance,
          "--no-preallocation: the log has no pool that took its memory in advance");
  if (changes.needs_uses() && !summary.has_uses)
    throw UsageError(fmt::format(
        "--{}: the log does not say when memory was used: record it with `gpupeak run --last-use`",
        changes.free_at_last_use    ? "free-at-last-use"
        : changes.take_at_first_use ? "take-at-first-use"
                                    : "without-unused"));
}

std::vector<Changes> settings_of(const Summary& summary) {
  const auto has = [&](bool (*is)(const ArenaSummary&)) {
    return std::any_of(summary.arenas.begin(), summary.arenas.end(), is);
  };
  std::vector<Changes> all;
  if (has(is_torch_pool)) all.emplace_back().expandable_segments = true;
  if (has(is_ort_arena)) all.emplace_back().same_as_requested = true;
  if (has(took_in_advance)) all.emplace_back().no_preallocation = true;
  if (!summary.has_uses) return all;
  all.emplace_back().without_unused = true;
  all.emplace_back().free_at_last_use = true;
  all.emplace_back().take_at_first_use = true;
  return all;
}

}  // namespace gpupeak::collector
