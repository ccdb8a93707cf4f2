// What came of a run, in a few sentences: how much, who, why, what next. The first screen, the
// report and the page begin with it.
//
// in    a Summary
// out   "peak 70.0 GiB of 80.0 GiB on GPU 0 at +3.20 s, in step"
//       "the peak was temporary: 40.0 GiB of it freed within 64 us"
//       next: gpupeak tags run.gplog   by layer
#pragma once

#include <string>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// Failed allocations that are alike: a program that asks again after it has given memory back
/// (PyTorch does) is told of once, with the last of them.
struct FailureGroup {
  const OutOfMemory* last;
  uint64_t count;
};
std::vector<FailureGroup> fold_failures(const Summary& summary);

struct Verdict {
  struct Sentence {
    std::string text;
    bool alarm = false;
  };
  /// A part of the card. What it holds comes first, then what the driver and others have, then what
  /// is free.
  struct Part {
    std::string name;
    uint64_t bytes;
    bool free = false;
  };
  struct Step {
    std::string command;
    std::string why;    ///< "by layer"; empty: the command says it
    bool page = false;  ///< not to be offered where the command was built without the page
  };

  std::vector<Sentence> sentences;  ///< losses and failures first
  std::vector<std::string> rows;    ///< of a run of several processes: who they were
  const DeviceSummary* device;      ///< the one that it is about: that with the largest peak
  std::vector<Part> bar;            ///< adds up to the card's memory; empty: that is not known
  std::vector<std::string> hints;   ///< what the log says of the peak beyond its holders
  std::vector<Step> next;
  std::string facts;     ///< of the run: how long, how it ended, what was recorded
  std::string warnings;  ///< "2 warnings: GP007, GP023"; empty: none
};

/// What it points to lives in `summary`.
Verdict verdict_of(const Summary& summary, const TextStyle& style);
/// A path for a shell to take back.
std::string quoted(const std::string& path);
inline constexpr size_t kBarColumns = 32;
/// The bar's parts in `columns` characters, each that is not empty in one at least.
std::string bar_text(const std::vector<Verdict::Part>& parts, size_t columns);
/// "weights 456 MiB · context and code 620 MiB · free 77.5 GiB".
std::string bar_legend(const std::vector<Verdict::Part>& parts, const TextStyle& style);

}  // namespace gpupeak::collector
