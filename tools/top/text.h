// The frames of `top` as lines of text: a list of programs, and one program by itself. The screen
// draws them, --once prints them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"
#include "tools/top/program.h"

namespace gpupeak::tools {

struct TopLine {
  enum class Look { kPlain, kBold, kFaint, kAlarm, kChosen };
  std::string text;
  Look look = Look::kPlain;
};
using TopLines = std::vector<TopLine>;

/// The line below a frame: what is to be said there, and which keys do what. The first keys are
/// those that are seen on the narrowest terminal. Without keys the user is typing a text.
struct TopFooter {
  struct Key {
    std::string key, does;
  };
  std::string said;
  std::vector<Key> keys;
};

enum class TopSort { kMemory, kPeak, kGrowth, kEvents, kName };
inline constexpr const char* kTopSorts[] = {"memory", "peak", "growth", "events", "name"};

struct TopView {
  TopSort sort = TopSort::kMemory;
  std::string filter;  ///< only rows that contain this text are shown
  /// Show the other holders. While a program runs: those at the peak instead of those now. When it
  /// has ended: those at its end instead of those at the peak.
  bool shows_other = false;
  bool has_choice = false;   ///< the user has chosen a row
  size_t chosen = 0;         ///< index of that row
  bool shows_stack = false;  ///< whether the stack of the chosen holder is shown
  bool is_replaying = false;
  double replay_seconds = 0;  ///< how long the replay takes, as estimated
};

/// The programs that pass the filter, in the order in which they are shown.
std::vector<const TopProgram*> arranged(const std::vector<TopProgram>& programs,
                                        const TopView& view);
/// The rows of `programs` begin at line `kTopListHead`.
inline constexpr size_t kTopListHead = 2;
TopLines list_text(const std::vector<const TopProgram*>& programs, size_t in_all,
                   const TopView& view, const collector::TextStyle& style);

/// Whether the holders that are shown are those of the peak. Those of a host that was attached to
/// always are: what it holds now is known only in part.
inline bool are_of_peak(const TopProgram& program, const TopView& view) {
  const bool knows_now = program.has_heap() || !program.devices().empty();
  return view.shows_other == program.log().is_live() || !knows_now;
}
/// The rows of holders that pass the filter; empty as long as nothing is known.
std::vector<const collector::Holder*> holders_of(const TopProgram& program, const TopView& view);
/// At most `rows` lines; holders get the lines that the other parts leave.
TopLines program_text(const TopProgram& program, const TopView& view, size_t rows,
                      const collector::TextStyle& style);

// Words and figures that the list and the page of `top` share.

/// A chart of so many rows, a column for each value; the highest is written beside it.
void add_chart(const std::vector<uint64_t>& values, size_t rows, const collector::TextStyle& style,
               TopLines& lines);
/// Width of the labels beside a chart, and in front of each line of a program's page.
inline constexpr size_t kTopLabelColumns = 11;

/// "1.5 days", "12 min", "140 ms".
std::string span_text(double seconds);
std::string rate_text(const std::optional<double>& per_second);
/// Bytes a second, with their sign.
std::string growth_text(const std::optional<double>& growth, const collector::TextStyle& style);
std::string state_text(const TopProgram& program);
/// The fastest growth of the program's devices, or of its heap if it has none, in bytes a second,
/// and the seconds until the first of their cards is full.
std::optional<double> growth_of(const TopProgram& program);
std::optional<double> full_of(const TopProgram& program);
/// Whether `text` contains `part`; upper and lower case are the same.
bool contains(const std::string& text, const std::string& part);

}  // namespace gpupeak::tools
