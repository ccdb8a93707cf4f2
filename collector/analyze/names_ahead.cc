#include "collector/analyze/names_ahead.h"

#include <algorithm>
#include <system_error>

#include "collector/log/parallel.h"
#include "collector/symbols/debug_files.h"

namespace gpupeak::collector {

size_t NamesAhead::worth_threads(const LogReader& log) {
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

NamesAhead::NamesAhead(Symbolizer& symbolizer, Tagger& tagger, size_t threads)
    : symbolizer_(symbolizer), tagger_(tagger), threads_(threads) {
  if (threads == 0) return;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  } catch (const std::system_error&) {
    // No more threads are to be had: names are looked up when they are asked for.
  }
}

void NamesAhead::work(const std::stop_token& stop) {
  try {
    tagger_.prepare_ahead(symbolizer_.resolve_ahead(threads_, stop), stop);
  } catch (...) {
    error_ = std::current_exception();
  }
}

void NamesAhead::finish() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  symbolizer_.end_ahead();
  if (error_) std::rethrow_exception(error_);
}

}  // namespace gpupeak::collector
