// The names of what a log defines, worked out while its events are replayed, by processors that the
// replay leaves idle. What will be shown is not known before the events are; nearly all functions
// are asked for in the end. What is said does not depend on it: of a library that is missing nobody
// hears who has not asked for a stack of it.
//
//   replay   ████████████████████████ ▏ tables: names are known
//   names      files · functions · rules
//
// analyze() has one.
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
