// Keeps the summary of a large log in a file, so that the next report neither unpacks nor replays
// the log and looks up no names. The file is used only if everything that the summary depends on is
// unchanged: the log, symbols beside it, libraries and debug files (also those that were missing),
// rules, options, and this command itself. What is shown is the same, byte for byte.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/files/regular_file.h"

namespace gpupeak::collector {

class KeptSummary {
 public:
  using Time = std::chrono::system_clock::time_point;

  /// Shorter logs are replayed in a moment.
  static constexpr uint64_t kWorthBytes = 32 << 20;

  /// Notes the log as it is now. `worth_bytes`: the summary of a shorter log is not kept.
  KeptSummary(const std::string& log, const Options& options, uint64_t worth_bytes = kWorthBytes);

  /// The kept summary. It is what analyze() would make, or has stacks or the heap as well. nullopt
  /// if none is kept, or something has changed.
  std::optional<Summary> find(Time now = Time::clock::now()) const;
  /// Whether the summary of this log can be kept. Call it before the log is read for the summary,
  /// so that changes meanwhile are noticed.
  bool can_keep(const LogReader& log);
  /// Tells that the log has become another file with the same content.
  void log_was_replaced() { files_.front() = state_of_file(log_); }
  /// Keeps the summary, unless anything has changed since can_keep(). Call it only if that was
  /// true.
  void keep(const Summary& summary) const;

 private:
  std::string file() const;
  bool is_unchanged() const;

  const std::string path_;
  const uint64_t worth_bytes_;
  const Sanitizer& sanitizer_;
  const SymbolSearch& search_;
  std::string log_;               // its canonical path; empty: nothing is kept
  std::string key_;               // stands for options, command and log
  std::vector<FileState> files_;  // the log first
};

/// The kept summary, or else analyze()'s, with what Options::complete adds.
Summary kept_or_analyzed(const std::string& log, const Options& options,
                         const Progress& progress = {},
                         uint64_t worth_bytes = KeptSummary::kWorthBytes);

}  // namespace gpupeak::collector
