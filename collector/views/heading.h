// What every view begins with, in text and in JSON: first the warnings about what was lost, then
// which peak or moment the view shows. Also which calls the two views of a call tree leave out.
//
// in    a Profile: a replayed log with its symbols; a scope, and a moment or the scope's peak
// out   lines such as
//
//   GP023  1 stack deeper than 256 frames: the outer frames are missing
//   PEAK  host memory, heap: 44.0 MiB at +0.84 s, phase decode
#pragma once

#include <string_view>

#include "collector/analyze/profile.h"
#include "collector/text/text_lines.h"
#include "collector/timeline/moment.h"
#include "collector/write/json_values.h"
#include "collector/write/view_style.h"

namespace gpupeak::collector {

/// On a narrower terminal two tables stand below each other.
inline constexpr int kNarrow = 80;

/// Calls with less than `min_percent` of the whole, or more than `depth` calls down, are not shown
/// one by one.
struct TreeCut {
  double min_percent = 1.0;
  uint32_t depth = 0;  ///< 0: all

  bool too_small(uint64_t bytes, uint64_t whole) const {
    return static_cast<double>(bytes) * 100.0 < min_percent * static_cast<double>(whole);
  }
  bool too_deep(uint32_t level) const { return depth > 0 && level >= depth; }
};

/// The beginning of a view's text: what was lost, and the warnings; no line if there are none.
TextLines view_text(const Profile& profile, const TextStyle& style);
/// For a peak "PEAK  GPU 0 (H200), device memory: 5 412.3 MiB at +9.81 s, phase run[1]"; for
/// another moment "LIVE  GPU 0 (H200), device memory: 3 100.0 MiB at +7.20 s, mark warm-up done".
void add_heading(const Profile& profile, const Held& held, TextLines& text);
/// Rows of size, percent, count and site; a last row has what was cut off, so that they add up.
void add_sites(const HolderTable& table, uint64_t whole, TextLines& text);
/// What the JSON of every view begins with. `schema`: for instance "gpupeak.tree/1".
Json view_json(const Profile& profile, std::string_view schema);
/// The same, with the peak or the moment that the view shows.
Json held_view_json(const Profile& profile, const Held& held, std::string_view schema);

}  // namespace gpupeak::collector
