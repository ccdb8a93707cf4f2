// Looks up the names of all functions of a log while the log is replayed, on processors that the
// replay leaves idle. Which names will be shown is known only after the replay, but nearly all are
// needed. The report does not depend on it: a library that is missing is told only if a stack with
// it is shown.
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

#include "collector/analyze/row_roles.h"
#include "collector/log/log_reader.h"
#include "collector/symbols/symbolizer.h"

namespace gpupeak::collector {

class NamesAhead {
 public:
  /// How many threads are worth it beside a replay; 0: none.
  static size_t worth_threads(const LogReader& log);

  /// Until finish() nobody else may use `symbolizer` and `tagger`.
  NamesAhead(Symbolizer& symbolizer, Tagger& tagger, size_t threads);
  /// Stops. What is not known by then is looked up when somebody asks. Throws what a thread threw.
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
