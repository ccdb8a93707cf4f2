// How verdict_of() finds its sentences, one step after the other. Only verdict*.cc use it.
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

  /// Says what no figure has: memory from before an attach, what was killed for want of memory, and
  /// processes that were not recorded.
  void not_seen();
  void growth_since();

  void losses();

  /// Says that the card was made to look smaller; this comes before the failures.
  void run_limits();

  const DeviceSummary* device(std::optional<int32_t> ordinal) const;

  bool ended_well() const { return summary_.run.end.in_order(); }

  static bool is_of_memory(const FailureGroup& group) { return found_no_memory(*group.last); }

  /// A program may ask for what this driver or card does not have, only to see whether it is there.
  /// It may also ask the machine for more than it has, and do with less.
  bool was_a_probe(const FailureGroup& group) const;

  /// The groups that were probes, or those that were not.
  std::vector<FailureGroup> failure_groups(bool probes) const;

  void failures();

  void probes();

  /// Why there is no sum of the host's memory.
  std::string what_of_host() const;

  /// Whether the host's figures begin at a fork.
  bool is_of_fork() const;

  /// The heap's peak of a child that was counted before it was recorded, bytes: the peak by sites
  /// lacks what came before. 0: it was no such child, or the verdict is about a device.
  uint64_t heap_of_counted_child() const;

  /// Which of several processes a sentence is about; empty: there is one.
  std::string by_whom() const;

  /// What was resident and the process's own, with its error if that is worth words. It is known.
  std::string own_memory_text() const;

  /// Whether that and what was asked for differ by a twentieth and more.
  bool asked_is_not_resident() const;

  /// The beginning of the host's sentence if they do: "peak 900 MiB resident, 786 MiB of it kept by
  /// malloc; ". Else empty.
  std::string resident_text() const;

  /// The sentence about the peak. `forked`: the peak counts from a fork on.
  std::string peak_text(bool forked) const;

  void peaks();

  /// Says when an arena took what is idle in it, and for whom, since idle memory has no holder.
  void arena_growth();

  /// Said if the device's memory is the host's, or if each of the two can use the other's: then no
  /// figure of one side alone says what is left.
  void one_memory();

  void other_devices();

  void add_part(std::string name, int64_t bytes, uint64_t& left);

  /// The frame by which a holder differs from the other holders in the bar: its first frame, if no
  /// other title begins with it.
  std::string telling_frame(size_t number) const;

  void bar();

  void ledger_parts(const LedgerView& view, uint64_t& left);

  void hints();

  /// Said if the program ended by itself with more than half as much live as at the peak. Idle
  /// memory of a pool is not live: the pool keeps it.
  void live_at_end();

  /// Resident memory by cause, if somebody looked at that. Causes of a fiftieth or less are left
  /// out.
  void resident_by_cause();

  /// Said if resident memory was far more, or far less, than what was asked for. Only for a whole
  /// run, whose largest RSS is known.
  void resident();

  /// Not said if it is told as the reason of a failure.
  void growth();

  /// Which library has no names, and what would give its functions names.
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
