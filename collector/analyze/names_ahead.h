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

#include <algorithm>
#include <cstddef>
#include <exception>
#include <stop_token>
#include <system_error>
#include <thread>

#include "collector/analyze/row_roles.h"
#include "collector/log/log_reader.h"
#include "collector/log/parallel.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/symbolizer.h"

namespace gpupeak::collector {

class NamesAhead {
 public:
  /// How many threads are worth it beside a replay; 0: none.
  static size_t worth_threads(const LogReader& log) {
    // More threads gain little, and slow the replay down, with which they share the memory.
    constexpr size_t kMost = 4;
    // A shorter log is replayed before one file has been read.
    constexpr uint64_t kWorthBytes = 1 << 20;
    if (log.left_heap_out()) return 0;
    const size_t processors = usable_processors();
    if (log.used_bytes() < kWorthBytes || processors <= kReplayThreads) return 0;
    // Servers of debug information are asked only for what is shown.
    if (!debug_servers().empty()) return 0;
    return std::min(kMost, processors - kReplayThreads);
  }

  /// Until finish() nobody else may use `symbolizer` and `tagger`.
  NamesAhead(Symbolizer& symbolizer, Tagger& tagger, size_t threads)
      : symbolizer_(symbolizer), tagger_(tagger), threads_(threads) {
    if (threads == 0) return;
    try {
      thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
    } catch (const std::system_error&) {
      // No more threads are to be had: names are looked up when they are asked for.
    }
  }
  /// Stops. What is not known by then is looked up when somebody asks. Throws what a thread threw.
  void finish() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
    symbolizer_.end_ahead();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work(const std::stop_token& stop) {
    try {
      tagger_.prepare_ahead(symbolizer_.resolve_ahead(threads_, stop), stop);
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  Symbolizer& symbolizer_;
  Tagger& tagger_;
  const size_t threads_;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace gpupeak::collector
