// Why an arena is as large as it is, in words, for the writers of text.
#pragma once

#include <cstdint>
#include <string>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// Took nearly all of its memory at once, long before anybody needed it: a share of the card.
bool was_taken_in_advance(const ArenaSummary& arena);
/// When it grew to its size and who was in it then; what of it was idle at the device's peak, and
/// why. Empty: it took nothing that the log knows.
///
///   XLA's pool took 59.4 GiB in advance at +1.20 s; at most 43.7 MiB of it was in use, at +5.01 s
///   (24.0 MiB dot)
std::string arena_growth_text(const ArenaSummary& arena, const TextStyle& style);
/// What it had at its peak, and then at the end: "40.0 MiB in use of 64.0 MiB reserved at its peak
/// …". Of an attached program what is left out that is not known.
std::string arena_peak_text(const ArenaSummary& arena, const TextStyle& style);
std::string arena_end_text(const ArenaSummary& arena, const TextStyle& style);
/// Of those that had memory of the device at its peak, the one with the most that was idle then.
/// nullptr: none had any.
const ArenaSummary* idlest_arena(const Summary& summary, int32_t device);

}  // namespace gpupeak::collector
