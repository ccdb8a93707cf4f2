// Replays logs for `top` in the background, one after the other, since only the events of a log
// tell holders, phases, pools and the ledger. It pauses between replays to stay below its share of
// a processor.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "collector/log/progress.h"
#include "collector/rules/rule_book.h"
#include "tools/top/program.h"

namespace gpupeak::tools {

/// Replays the log up to its present end.
std::shared_ptr<const TopFindings> replay_for_top(const std::string& path,
                                                  const collector::Reading& reading,
                                                  const collector::Progress& progress = {});

class TopReplay {
 public:
  explicit TopReplay(const collector::Reading& reading) : reading_(reading) {}
  ~TopReplay();
  TopReplay(const TopReplay&) = delete;
  TopReplay& operator=(const TopReplay&) = delete;

  /// Begins a replay, unless one is under way or it would take more processor time than its share.
  /// `asked`: a user asked for it, so it may take any time. `before`: what the last replay of this
  /// log found.
  void want(const std::string& path, uint64_t log_bytes, const TopFindings* before, bool asked);
  bool is_busy() const { return job_.valid(); }
  /// Which log is being replayed.
  const std::string& path() const { return path_; }
  /// What the replay has found; only the first call after its end gets it.
  std::shared_ptr<const TopFindings> done();
  /// How many seconds a replay would take.
  static double estimate(uint64_t log_bytes, const TopFindings* before);

 private:
  const collector::Reading& reading_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  double spent_ = 0;  ///< seconds of a processor
  std::string path_;
  std::atomic<bool> is_given_up_{false};
  std::future<std::shared_ptr<const TopFindings>> job_;
};

}  // namespace gpupeak::tools
