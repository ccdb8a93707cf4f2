#include "collector/summary/arena_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/text/scope_key.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxParts = 1;

/// ", 300 MiB by forward net.py:12 (conv)": the largest parts.
std::string parts_text(const std::vector<ArenaSummary::Part>& parts, const TextStyle& style) {
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), kMaxParts); ++i) {
    text += fmt::format("{}{} of it by {}", text.empty() ? ", " : " and ",
                        size_text(parts[i].bytes, style), spoken_title(parts[i].title));
  }
  return text;
}

/// "PyTorch's pool".
std::string name_of(const ArenaSummary& arena) {
  return arena.name + "'s pool";
}

const ArenaSummary::Growth& largest_growth(const ArenaSummary& arena) {
  return *std::ranges::max_element(arena.growths,
                                   [](auto& a, auto& b) { return a.bytes < b.bytes; });
}

/// The cause whose largest segment exceeds most what was asked for, if that is a good part of what
/// is idle; else nullptr.
const ArenaSummary::Cause* most_ahead(const ArenaSummary& arena) {
  const auto ahead = [](const ArenaSummary::Cause& cause) {
    return cause.largest_bytes - std::min(cause.largest_bytes, cause.largest_asked_bytes);
  };
  const auto most = std::ranges::max_element(
      arena.causes, [&](const auto& a, const auto& b) { return ahead(a) < ahead(b); });
  const uint64_t idle = arena.at_device_peak->idle_bytes();
  return most != arena.causes.end() && ahead(*most) > idle / 4 ? &*most : nullptr;
}

std::string advance_text(const ArenaSummary& arena, const ArenaSummary::Growth& growth,
                         const TextStyle& style) {
  return fmt::format("{} took {} in advance at {}; at most {} of it was in use, at {}{}",
                     name_of(arena), size_text(growth.bytes, style), instant(growth.time_ns),
                     size_text(arena.peak_bytes, style), instant(arena.peak_time_ns),
                     parts_text(arena.parts, style));
}

/// How much of it was idle at the device's peak, and why.
std::string idle_text(const ArenaSummary& arena, const TextStyle& style) {
  const uint64_t idle = arena.at_device_peak->idle_bytes();
  const uint64_t never_used = std::min(idle, arena.never_used_bytes);
  std::string text = fmt::format("; at the peak {} of it was idle: ", size_text(idle, style));
  if (idle > never_used)
    text += fmt::format("{} used and freed", size_text(idle - never_used, style));
  if (never_used > 0)
    text +=
        fmt::format("{}{} never used", idle > never_used ? ", " : "", size_text(never_used, style));
  if (const ArenaSummary::Cause* cause = most_ahead(arena))
    return text + fmt::format(" (a request of {} had it take {} at {})",
                              size_text(cause->largest_asked_bytes, style),
                              size_text(cause->largest_bytes, style), instant(cause->time_ns));
  // Said only if it is a good part of what is idle.
  if (arena.idle_in_holes_bytes > idle / 4)
    text += fmt::format("; {} of it in holes beside blocks in use",
                        size_text(arena.idle_in_holes_bytes, style));
  if (arena.idle_for_graphs_bytes > idle / 4)
    text += fmt::format("; {} of it kept for CUDA graphs",
                        size_text(arena.idle_for_graphs_bytes, style));
  return text;
}

std::string growth_text(const ArenaSummary& arena, const TextStyle& style) {
  const ArenaSummary::Largest& largest = arena.largest;
  std::string text =
      fmt::format("{} grew to {} at {}, with {} in use{}", name_of(arena),
                  size_text(arena.reserved_peak_bytes, style), instant(largest.time_ns),
                  size_text(largest.in_use_bytes, style), parts_text(largest.parts, style));
  if (arena.at_device_peak && arena.at_device_peak->idle_bytes() > 0)
    text += idle_text(arena, style);
  return text;
}

}  // namespace

bool was_taken_in_advance(const ArenaSummary& arena) {
  if (arena.growths.empty()) return false;
  const ArenaSummary::Growth& most = largest_growth(arena);
  return most.bytes > arena.reserved_peak_bytes / 10 * 9 && most.asked_bytes < most.bytes / 10;
}

std::string arena_growth_text(const ArenaSummary& arena, const TextStyle& style) {
  if (arena.growths.empty()) return "";
  if (!was_taken_in_advance(arena)) return growth_text(arena, style);
  return advance_text(arena, largest_growth(arena), style);
}

std::string arena_peak_text(const ArenaSummary& arena, const TextStyle& style) {
  const std::string in_use = size_text(arena.at_peak.in_use_bytes, style);
  const std::string when = instant(arena.peak_time_ns);
  if (arena.older)
    return fmt::format("{} in use at its peak of what it has handed out since the attach, {}",
                       in_use, when);
  return fmt::format("{} in use of {} reserved at its peak, {} idle (largest {}), {}", in_use,
                     size_text(arena.at_peak.reserved_bytes, style),
                     size_text(arena.at_peak.idle_bytes(), style),
                     size_text(arena.largest_idle_bytes, style), when);
}

std::string arena_end_text(const ArenaSummary& arena, const TextStyle& style) {
  std::string text = fmt::format("at the end {} in use", size_text(arena.live_bytes, style));
  if (!arena.older) {
    text += " of " + size_text(arena.reserved_bytes, style);
  } else if (arena.older->in_use_bytes) {
    text += fmt::format(", and {} from before, by its own account",
                        size_text(*arena.older->in_use_bytes, style));
  } else {
    text += "; how much from before it does not say";
  }
  text += fmt::format("; {} allocations", grouped(arena.alloc_count));
  if (arena.failed_count > 0) text += fmt::format(", {} refused", grouped(arena.failed_count));
  return text;
}

const ArenaSummary* idlest_arena(const Summary& summary, int32_t device) {
  const ArenaSummary* idlest = nullptr;
  for (const ArenaSummary& arena : summary.arenas) {
    if (arena.device != device || !arena.at_device_peak || arena.at_device_peak->idle_bytes() == 0)
      continue;
    if (idlest == nullptr ||
        arena.at_device_peak->idle_bytes() > idlest->at_device_peak->idle_bytes())
      idlest = &arena;
  }
  return idlest;
}

const ArenaSummary* arena_behind_peak(const Summary& summary, int32_t device) {
  constexpr uint64_t kWorthRows = 5;
  const Peak* peak = summary.find_peak(ScopeKey::device(device).text());
  const ArenaSummary* arena = idlest_arena(summary, device);
  if (peak == nullptr || arena == nullptr || arena->largest.parts.empty()) return nullptr;
  const uint64_t used = arena->at_device_peak->in_use_bytes, then = arena->largest.in_use_bytes;
  const bool has_gone = then > used && then - used > peak->bytes / kWorthRows;
  return has_gone && !was_taken_in_advance(*arena) ? arena : nullptr;
}

std::string grown_arena_text(const ArenaSummary& arena, const TextStyle& style) {
  return fmt::format("{} as it grew to {} at {}, {} of it in use", name_of(arena),
                     size_text(arena.reserved_peak_bytes, style), instant(arena.largest.time_ns),
                     size_text(arena.largest.in_use_bytes, style));
}

}  // namespace gpupeak::collector
