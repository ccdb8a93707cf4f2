// A log, replayed whole, with its symbols and the warnings about its quality. The views and the
// exports read it: analyze() makes a summary of the largest rows, but they need every stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/analyze/tagger.h"
#include "collector/log/coverage.h"
#include "collector/log/event_stream.h"
#include "collector/log/log_reader.h"
#include "collector/replay/replay.h"
#include "collector/rules/reading.h"
#include "collector/summary/summary.h"
#include "collector/symbols/symbolizer.h"

namespace gpupeak::collector {

/// One call of a stack, inlined ones too.
struct Call {
  const Frame* frame;
  uint32_t function;  ///< equal for equal functions
  uint32_t place;     ///< equal for equal lines; 0: none is known
};

class Profile {
 public:
  /// Throws LogError if there is nothing to be read.
  explicit Profile(const std::string& path, const Progress& progress = {},
                   ReplayObserver* observer = nullptr, const Reading& reading = {});
  /// For who needs the events once more, knowing peaks and stacks: the same events, with the same
  /// rules, in front of `observer`. A log that is still being written may have grown meanwhile.
  void replay_again(ReplayObserver& observer, const Progress& progress) const;

  const std::string& path() const { return path_; }
  const LogReader& log() const { return log_; }
  const Replay& replay() const { return replay_; }
  const Coverage& coverage() const { return coverage_; }
  const Definitions& definitions() const { return log_.definitions(); }
  Symbolizer& symbolizer() { return symbolizer_; }
  /// Rows by site.
  Attribution& sites() { return sites_; }
  SiteTitles& titles() { return titles_; }
  const Attribution& sites() const { return sites_; }
  const RuleBook& rules() const { return rules_; }
  Tagger& tagger() { return tagger_; }

  /// The scope with this name. For an empty one the sum that most want to see: the device's, of
  /// several devices that of all; without device memory the host's. Throws UsageError for one that
  /// the log has nothing of.
  ScopeId scope(const std::string& name) const;
  const ScopeInfo& scope_info(ScopeId id) const { return replay_.sites().scopes()[id]; }
  const PeakFinder::Scope& sum(ScopeId id) const { return replay_.peaks().scope(id); }
  /// Those with a peak that is measured, by name.
  std::vector<ScopeId> scopes() const;

  /// Who held the peak: adds up to it.
  std::vector<Contribution> at_peak(ScopeId scope) const;
  /// What of it was live in the end.
  std::vector<Contribution> live(ScopeId scope) const;
  bool counts_into(GroupId group, ScopeId scope) const;
  /// Whether the stack has frames of Python.
  bool has_python(uint32_t stack) const { return titles_.has_python(stack); }
  /// Innermost first, without our own hooks and wrappers, nor the interpreter's code where Python's
  /// frames are known; empty for a block without a stack.
  /// No more than `most`.
  std::vector<Call> calls(uint32_t stack, size_t most = SIZE_MAX);
  /// The same, for who writes all calls of each stack. Stacks share their calls, so a small log's
  /// could fill a disk: throws LogError where they come to many times what the log has.
  std::vector<Call> calls_to_write(uint32_t stack);
  [[noreturn]] void refuse_stacks() const;

  /// Nanoseconds since the log's start.
  int64_t to_ns(uint64_t ticks) const { return log_.clock().to_ns(ticks); }
  std::optional<std::string> phase_at_peak(ScopeId scope) const;
  /// "GPU 0 (H200), device memory", "host memory, heap" …
  std::string scope_text(ScopeId scope) const;
  /// Ask at the end: modules without symbols are known only after their frames were asked for.
  Quality quality() const;

 private:
  const std::string path_;
  const LogReader log_;
  Replay replay_;
  const Coverage coverage_;
  Symbolizer symbolizer_;
  const RuleBook rules_;
  const StackPhases phases_;
  Tagger tagger_;
  SiteTitles titles_;
  Attribution sites_;
  uint64_t calls_written_ = 0;
};

}  // namespace gpupeak::collector
