// What came of a run, in a few sentences: how much, who, why, what next. The first screen, the
// report and the page begin with them.
//
// in    a Summary
// out   "peak 70.0 GiB of 80.0 GiB on GPU 0 at +3.20 s, in step"
//       "the peak was temporary: 40.0 GiB of it freed within 64 us"
//       next: gpupeak tags run.gplog   by layer
#pragma once

#include <string>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_lines.h"

namespace gpupeak::collector {

/// Failed allocations that are alike. A program may ask again after it has given memory back
/// (PyTorch does): this is told once, by the last failure.
struct FailureGroup {
  const OutOfMemory* last;
  uint64_t count;
};
/// By their last failures, in the order of time; those for want of memory come last.
std::vector<FailureGroup> fold_failures(const Summary& summary);

struct Verdict {
  struct Sentence {
    std::string text;
    bool alarm = false;
  };
  /// A part of the card's memory. What the peak holds comes first, then what the driver and others
  /// have, then what is free.
  struct Part {
    std::string name;
    uint64_t bytes;
    bool free = false;
  };
  struct Step {
    std::string command;
    std::string why;    ///< "by layer"; empty: the command says it
    bool page = false;  ///< offered only if the command was built with the page
  };

  std::vector<Sentence> sentences;  ///< losses and failures first
  std::vector<std::string> rows;    ///< the processes, if the run had several
  /// The verdict is about this one: that with the largest peak; nullptr: none was used.
  const DeviceSummary* device;
  std::vector<Part> bar;           ///< adds up to the card's memory; empty: this is not known
  std::vector<std::string> hints;  ///< what the log says of the peak beyond its holders
  std::vector<Step> next;
  std::string facts;          ///< of the run: how long, how it ended, what was recorded
  std::string warnings;       ///< "log could not grow, stacks cut"; empty: none
  std::string warning_codes;  ///< of these: "GP007 GP023"
};

/// The verdict points into `summary`.
Verdict verdict_of(const Summary& summary, const TextStyle& style);
/// The path as a shell takes it.
std::string quoted(const std::string& path);
inline constexpr size_t kBarColumns = 32;
/// The bar's parts in `columns` characters; each part that is not empty has at least one.
std::string bar_text(const std::vector<Verdict::Part>& parts, size_t columns);
/// "weights 456 MiB · context and code 620 MiB · free 77.5 GiB".
std::string bar_legend(const std::vector<Verdict::Part>& parts, const TextStyle& style);
/// Both, behind a margin: in one line if there is room; else the legend is below.
void add_bar(const Verdict& verdict, std::string_view margin, TextLines& lines);

}  // namespace gpupeak::collector
