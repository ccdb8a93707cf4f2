// A log that is asked what it would have been with one change after another. It keeps what does not
// depend on the change, so that this is found only once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/fit/need_watch.h"
#include "collector/fit/what_if.h"
#include "collector/fit/what_if_watch.h"

namespace gpupeak::collector {

class ChangedLog {
 public:
  /// `known`: the log's summary, if somebody has it already.
  ChangedLog(const std::string& path, const Options& options, const Progress& progress,
             const Summary* known = nullptr);

  const Summary& summary() const { return *summary_; }
  /// Whether the replay comes to that peak. It may not if events were lost, or if the log has grown
  /// since.
  bool has(const Peak& peak) const;

  /// The two blocks at the peak of a device that save most if one takes the memory of the other:
  /// its first use comes after the other's last one, and it is no larger.
  std::optional<Changes::Two> two_as_one(const Peak& peak);

  WhatIf with(const Changes& changes, WithCurves curves = WithCurves::kNo);

 private:
  /// Replays the log once more when it is called first; later calls do nothing.
  void find_last_uses();
  void find_histories();
  void find_advances();
  /// Whether the answer includes the host's memory.
  bool has_host(const Changes& changes) const;
  std::vector<int32_t> drawn(const Changes& changes) const;
  /// The replay's peak without the change. Not the summary's: if events were lost, that is what the
  /// library counted, and it cannot be compared with figures of a replay.
  WhatIfSum sum_of(WhatIfWatch& changed, int32_t device, const Peak& peak) const;
  bool is_whole(int32_t device, uint64_t replayed) const;
  void add_losses(WhatIfSum& sum) const;
  void add_note(const WhatIfWatch& changed, WhatIfSum& sum) const;

  const Options& options_;
  const Progress& progress_;
  NeedWatch first_;  // watches the profile's replay, which points to it
  Profile profile_;
  std::optional<NeedWatch> again_;  // `arenas_` points into it
  Summary made_;
  const Summary* summary_ = nullptr;
  KnownArenas arenas_;
  bool has_last_uses_ = false;
};

}  // namespace gpupeak::collector
