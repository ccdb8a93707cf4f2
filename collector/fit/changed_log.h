// A log, and what of it is known before any change, which is asked for one change after the other.
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
  /// `known`: the log's summary, if it is there already.
  ChangedLog(const std::string& path, const Options& options, const Progress& progress,
             const Summary* known = nullptr);

  const Summary& summary() const { return *summary_; }
  /// Whether the replay comes to that peak. Where events were lost it may not, nor where the log
  /// has grown since.
  bool has(const Peak& peak) const;

  WhatIf with(const Changes& changes, WithCurves curves = WithCurves::kNo);

 private:
  /// Once.
  void find_last_uses();
  void find_histories();
  void find_advances();
  /// Whether the host's memory is part of the answer.
  bool has_host(const Changes& changes) const;
  std::vector<int32_t> drawn(const Changes& changes) const;
  /// The replay's peak without the change, not that of the summary: where events were lost that is
  /// what the library counted, with which nothing of the log can be compared.
  WhatIfSum sum_of(WhatIfWatch& changed, int32_t device, const Peak& peak) const;
  bool is_whole(int32_t device, uint64_t replayed) const;
  void add_losses(WhatIfSum& sum) const;
  void add_note(const WhatIfWatch& changed, WhatIfSum& sum) const;

  const Options& options_;
  const Progress& progress_;
  NeedWatch first_;  // its replay, the profile's, knows it for as long as it lives
  Profile profile_;
  std::optional<NeedWatch> again_;  // `arenas_` points into it
  Summary made_;
  const Summary* summary_ = nullptr;
  KnownArenas arenas_;
  bool has_last_uses_ = false;
};

}  // namespace gpupeak::collector
