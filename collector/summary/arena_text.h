// Why an arena is as large as it is, in words, for the writers of text.
#pragma once

#include <cstdint>
#include <string>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// Whether it took nearly all of its memory at once, more than ten times what the request needed: a
/// share of the card, taken in advance.
bool was_taken_in_advance(const ArenaSummary& arena);
/// When it grew to its size and who was in it then; how much of it was idle at the device's peak,
/// and why. Empty: the log knows of nothing that it took.
///
///   XLA's pool took 59.4 GiB in advance at +1.20 s; at most 43.7 MiB of it was in use, at +5.01 s
///   (24.0 MiB dot)
std::string arena_growth_text(const ArenaSummary& arena, const TextStyle& style);
/// What it had at its peak: "40.0 MiB in use of 64.0 MiB reserved at its peak …". For an attached
/// program, figures that are not known are left out; so they are below.
std::string arena_peak_text(const ArenaSummary& arena, const TextStyle& style);
/// What it had at the end: "at the end 8.00 MiB in use of 64.0 MiB; 1 204 allocations".
std::string arena_end_text(const ArenaSummary& arena, const TextStyle& style);
/// Of the device's arenas, the one with most idle memory at the device's peak. nullptr: none had
/// any.
const ArenaSummary* idlest_arena(const Summary& summary, int32_t device);
/// That arena, if what was freed in it since it grew to its size is more than a fifth of the
/// device's peak: then those who were in it as it grew (`largest`) are the cause of the peak, and
/// not what is idle since. nullptr: there is none, or it took its memory in advance.
const ArenaSummary* arena_behind_peak(const Summary& summary, int32_t device);
/// "PyTorch's pool as it grew to 14.2 GiB at +3.10 s, 12.3 GiB of it in use".
std::string grown_arena_text(const ArenaSummary& arena, const TextStyle& style);

}  // namespace gpupeak::collector
