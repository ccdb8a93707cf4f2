// How verdict_of() comes to its sentences, one step after the other. For verdict*.cc alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/summary/failure_cause.h"
#include "collector/summary/verdict.h"

namespace gpupeak::collector {

class Judge {
 public:
  Judge(const Summary& summary, const TextStyle& style) : summary_(summary), style_(style) {}

  Verdict judge();

 private:
  std::string size(const std::optional<uint64_t>& bytes) const { return size_text(bytes, style_); }
  void say(std::string text, bool alarming = false);

  void find_device();

  /// What ended the run for want of memory, and which of its processes no figure has; of an
  /// attached program that no figure has what was there before.
  void not_seen();
  void growth_since();

  void losses();

  /// That the card was to look smaller is said before what came of it.
  void run_limits();

  const DeviceSummary* device(std::optional<int32_t> ordinal) const;

  bool ended_well() const { return summary_.run.end.in_order(); }

  static bool is_of_memory(const FailureGroup& group) { return found_no_memory(*group.last); }

  /// A program may ask for what this driver or card does not have, only to see whether it does.
  /// So may it ask the machine for more than it has, and do with less.
  bool was_a_probe(const FailureGroup& group) const;

  /// Those that were probes, or those that were not.
  std::vector<FailureGroup> failure_groups(bool probes) const;

  void failures();

  void probes();

  /// Where there is no sum of it.
  std::string what_of_host() const;

  /// Whether the host's figures are those since a fork.
  bool is_of_fork() const;

  /// Of a child that was counted before it was recorded the sites' peak lacks what came before.
  uint64_t heap_of_counted_child() const;

  /// Whom of several processes a sentence is about.
  std::string by_whom() const;

  /// Of the host: where more of what was resident lay beside what was handed out than in it, that
  /// comes first ("786 MiB of it kept by malloc"). Else empty.
  std::string mostly_resident() const;

  /// Of the peak that the verdict is about. `forked`: it is what came since a fork.
  std::string peak_text(bool forked) const;

  void peaks();

  /// What is idle in an arena has no holder who could answer: when it was taken, and for whom.
  void arena_growth();

  /// Where the device's memory is the host's, or both are within each other's reach, no figure of
  /// one side alone says what is left.
  void one_memory();

  void other_devices();

  void add_part(std::string name, int64_t bytes, uint64_t& left);

  /// The frame by which a holder differs from the others that the bar shows: the first, if no other
  /// begins with it.
  std::string telling_frame(size_t number) const;

  void bar();

  void ledger_parts(const LedgerView& view, uint64_t& left);

  void hints();

  /// Said where the program ended by itself with more than half as much live as at the peak. What
  /// lies idle in a pool is not live: the pool keeps it.
  void live_at_end();

  /// By cause, where it was looked at; those of a few percent are left out.
  void resident_by_cause(uint64_t peak);

  /// Where what was resident is far from what was asked for, whichever is larger: of the whole run,
  /// whose largest RSS is known.
  void resident();

  /// Unless it is told as the reason of a failure.
  void growth();

  /// Which library it is, and what gives its functions names.
  std::string what_names(const std::map<std::string, uint64_t>& by_module, uint64_t unnamed) const;

  void step(std::string_view verb, std::string why);

  void steps();

  void facts();

  const Summary& summary_;
  const TextStyle& style_;
  const Peak* peak_ = nullptr;
  size_t used_devices_ = 0;
  Verdict verdict_;
};

}  // namespace gpupeak::collector
