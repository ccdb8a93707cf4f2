// The frames of `top` as lines of text: a list of programs, and one program by itself. The screen
// draws them, --once prints them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"
#include "top_program.h"

namespace gpupeak::tools {

struct TopLine {
  enum class Look { kPlain, kBold, kFaint, kAlarm, kChosen };
  std::string text;
  Look look = Look::kPlain;
};
using TopLines = std::vector<TopLine>;

enum class TopSort { kMemory, kPeak, kGrowth, kEvents, kName };
inline constexpr const char* kTopSorts[] = {"memory", "peak", "growth", "events", "name"};

struct TopView {
  TopSort sort = TopSort::kMemory;
  std::string filter;  ///< rows that have it somewhere
  /// The other holders: of the peak in place of those that hold now; of a program that has ended
  /// those of the end in place of the peak's.
  bool shows_other = false;
  bool has_choice = false;   ///< a row is chosen, by hand
  size_t chosen = 0;         ///< a row
  bool shows_stack = false;  ///< of the chosen holder
  bool is_replaying = false;
  double replay_seconds = 0;  ///< that it would take
};

/// Those that the filter leaves, in order.
std::vector<const TopProgram*> arranged(const std::vector<TopProgram>& programs,
                                        const TopView& view);
/// The rows of `programs` begin at line `kTopListHead`.
inline constexpr size_t kTopListHead = 2;
TopLines list_text(const std::vector<const TopProgram*>& programs, size_t in_all,
                   const TopView& view, const collector::TextStyle& style);

/// Whether they are those of the peak.
inline bool are_of_peak(const TopProgram& program, const TopView& view) {
  return view.shows_other == program.log().is_live();
}
/// What the holders' rows are, after the filter; empty while nothing is known.
std::vector<const collector::Holder*> holders_of(const TopProgram& program, const TopView& view);
/// At most `rows` lines, of which holders take what is left.
TopLines program_text(const TopProgram& program, const TopView& view, size_t rows,
                      const collector::TextStyle& style);

}  // namespace gpupeak::tools
