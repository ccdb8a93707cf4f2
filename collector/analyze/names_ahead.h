// Looks up the names of all functions of a log while the log is replayed, on processors that the
// replay leaves idle. Which of them will be shown is known only when the replay has ended, but
// nearly all are needed. Nothing that is shown depends on it: a library that is missing is reported
// only if a stack with it is shown.
//
//   replay   ████████████████████████ ▏ tables: names are known
//   names      files · functions · rules
//
// analyze() has one of these.
#pragma once

#include <cstddef>
#include <exception>
#include <stop_token>
#include <thread>

#include "collector/analyze/tagger.h"
#include "collector/log/log_reader.h"
#include "collector/symbols/symbolizer.h"

namespace gpupeak::collector {

class NamesAhead {
 public:
  /// The threads that are worth it beside a replay; 0: none.
  static size_t worth_threads(const LogReader& log);

  /// Until finish() both are this object's alone.
  NamesAhead(Symbolizer& symbolizer, Tagger& tagger, size_t threads);
  /// What is not known by then is left to who asks. Throws what working it out threw.
  void finish();

 private:
  void work(const std::stop_token& stop);

  Symbolizer& symbolizer_;
  Tagger& tagger_;
  const size_t threads_;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace gpupeak::collector
