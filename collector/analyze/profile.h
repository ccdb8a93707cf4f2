// A log that is replayed whole, with its symbols and the warnings about its quality. The views and
// the exports read it: analyze() makes a summary of the largest rows, but they need every stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/log/log_head.h"
#include "collector/log/log_reader.h"
#include "collector/replay/replay.h"
#include "collector/rules/rule_book.h"
#include "collector/summary/summary.h"
#include "collector/symbols/symbolizer.h"

namespace gpupeak::collector {

/// One call of a stack; inlined ones, too.
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
  /// Of an open log, which must outlive this, for summarize(): it decides which calls are told
  /// apart.
  Profile(const LogReader& log, const std::string& path, const Progress& progress,
          ReplayObserver* observer, const Reading& reading);
  /// Replays the log once more for `observer`, now that peaks and stacks are known: the same
  /// events, with the same rules. A log that is still being written may have grown meanwhile.
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

  /// The scope with this name. For an empty name the sum that most users want to see: the device's;
  /// the sum of all devices if there are several; the host's if there is no device memory. Throws
  /// UsageError for a scope of which the log has nothing.
  ScopeId scope(const std::string& name) const;
  const ScopeInfo& scope_info(ScopeId id) const { return replay_.sites().scopes()[id]; }
  const PeakFinder::Scope& sum(ScopeId id) const { return replay_.peaks().scope(id); }
  /// The scopes with a peak that is measured, by name.
  std::vector<ScopeId> scopes() const;

  /// Who held the peak: they add up to it.
  std::vector<Contribution> at_peak(ScopeId scope) const;
  /// Who held bytes of the scope at the end.
  std::vector<Contribution> live(ScopeId scope) const { return live_in(replay_, scope); }
  /// The same in another replay of the log, as far as it has come.
  std::vector<Contribution> live_in(const Replay& replay, ScopeId scope) const;
  bool counts_into(GroupId group, ScopeId scope) const;
  /// Whether the stack has frames of Python.
  bool has_python(uint32_t stack) const { return titles_.has_python(stack); }
  /// The calls of a stack, innermost first, at most `most`. Our own hooks and wrappers are left
  /// out, and the interpreter's code if Python's frames are known. Empty for a block without a
  /// stack.
  std::vector<Call> calls(uint32_t stack, size_t most = SIZE_MAX);
  /// The same, for formats that write all calls of each stack. Stacks share their calls, so a small
  /// log could fill a disk: throws LogError if the calls are many times what the log has.
  std::vector<Call> calls_to_write(uint32_t stack);
  [[noreturn]] void refuse_stacks() const;

  /// Nanoseconds since the log's start.
  int64_t to_ns(uint64_t ticks) const { return log_.clock().to_ns(ticks); }
  std::optional<std::string> phase_at_peak(ScopeId scope) const;
  /// "GPU 0 (H200), device memory", "host memory, heap" …
  std::string scope_text(ScopeId scope) const;
  /// Call it at the end: modules without symbols are known only after their frames were asked for.
  Quality quality() const;

 private:
  Profile(std::unique_ptr<const LogReader> log, const std::string& path, const Progress& progress,
          ReplayObserver* observer, const Reading& reading);

  std::unique_ptr<const LogReader> own_log_;
  const std::string path_;
  const LogReader& log_;
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
