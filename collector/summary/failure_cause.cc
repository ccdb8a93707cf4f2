#include <algorithm>

#include "collector/summary/run_text.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {
namespace {

using Cause = OutOfMemory::Cause;

/// Rounded up to driver pages. A program may ask for nearly 2^64 bytes, which rounding overflows.
uint64_t in_pages(uint64_t bytes) {
  return std::max(bytes, whole_driver_pages(bytes));
}

class Finder {
 public:
  explicit Finder(OutOfMemory& oom) : oom_(oom) {}

  void find() {
    if (!found_no_memory(oom_) || oom_.only_addresses) return;
    if (oom_.on_host) return own_limit_of_host();
    const std::optional<uint64_t> total = oom_.driver_total_bytes;
    if (total && oom_.requested_bytes > *total) return only(FailureCause::kLargerThanCard, 0);
    if (!oom_.figures_are_whole) return;
    if (oom_.for_driver) return without_amount();
    gather();
    if (!oom_.driver_free_bytes) return without_driver();
    const uint64_t needed = needed_of_driver(oom_), free = *oom_.driver_free_bytes;
    if (refused_alone()) {
      // Its own limit is the cause only if the card had room.
      if (needed <= free && is_beyond_limit()) name(FailureCause::kOwnLimit, free);
    } else if (needed <= free) {
      return;  // as much was free, and yet the driver refused: nothing here says why
    }
    for (const Cause& one : gathered_) {
      if (enough(one.bytes)) oom_.causes.push_back(one);
    }
    largest_first(oom_.causes);
    if (!oom_.causes.empty() || refused_alone()) return;
    uint64_t sum = 0;
    largest_first(gathered_);
    for (const Cause& one : gathered_) {
      oom_.parts.push_back(one);
      sum += one.bytes;
      if (enough(sum)) return only(FailureCause::kTogether, sum);
    }
    oom_.parts.clear();
    // The rest of the card is other processes' and the driver's own: without a ledger, all of it
    // may be other processes'.
    if (!enough(sum + (others_bytes(oom_) ? 0 : beside()))) only(FailureCause::kFull, 0);
  }

 private:
  void name(FailureCause cause, uint64_t bytes) { oom_.causes.push_back({cause, bytes}); }
  void only(FailureCause cause, uint64_t bytes) { oom_.causes = {{cause, bytes}}; }
  static void largest_first(std::vector<Cause>& causes) {
    // An arena's own limit stays in front: the driver was not even asked.
    std::ranges::stable_sort(causes, [](const Cause& a, const Cause& b) {
      const bool a_limit = a.cause == FailureCause::kOwnLimit;
      const bool b_limit = b.cause == FailureCause::kOwnLimit;
      return a_limit != b_limit ? a_limit : a.bytes > b.bytes;
    });
  }
  /// An arena that tells its limit is compared with it. For others, the proof is that the driver
  /// was not asked, unless the arena may lack addresses.
  bool is_beyond_limit() const {
    if (!oom_.limit_bytes)
      return !oom_.refused_by->grows_in_place ||
             oom_.unmapped_address_bytes >= in_pages(oom_.requested_bytes);
    return oom_.refused_by->reserved_bytes + oom_.requested_bytes > *oom_.limit_bytes;
  }
  bool refused_alone() const { return oom_.refused_by && oom_.driver_refusals == 0; }

  /// Whether the request would have been served if so many more bytes were free in one piece.
  bool enough(uint64_t more) const {
    if (!refused_alone() && *oom_.driver_free_bytes + more >= needed_of_driver(oom_)) return true;
    return oom_.refused_by && idle_serves_ && more >= oom_.requested_bytes;
  }

  /// Bytes that nobody seen uses: the driver's own, and other processes'.
  uint64_t beside() const {
    const uint64_t total = oom_.driver_total_bytes.value_or(0);
    const uint64_t known = *oom_.driver_free_bytes + oom_.live_bytes;
    return total > known ? total - known : 0;
  }

  void gather() {
    const auto add = [&](FailureCause cause, uint64_t bytes) {
      if (bytes > 0) gathered_.push_back({cause, bytes});
    };
    if (oom_.refused_by) {
      const ArenaSnapshot& arena = *oom_.refused_by;
      idle_serves_ = true;
      const bool whole = arena.largest_idle_bytes >= oom_.requested_bytes;
      add(whole ? FailureCause::kSetApart : FailureCause::kFragmented,
          whole ? arena.largest_idle_bytes : arena.idle_bytes());
      add(FailureCause::kGraphArena, arena.graph_idle_bytes);
    }
    uint64_t idle = 0;
    for (const ArenaSnapshot& arena : oom_.arenas) {
      if (!oom_.refused_by || arena.name != oom_.refused_by->name)
        idle += arena.idle_bytes() + arena.graph_idle_bytes;
    }
    // A memory pool gives back whole pieces of its own reserve before it refuses: the rest has
    // holes.
    if (oom_.of_driver_pool) add(FailureCause::kFragmented, oom_.pool_slack_bytes);
    add(FailureCause::kIdleInArena, idle + (oom_.of_driver_pool ? 0 : oom_.pool_slack_bytes));
    add(FailureCause::kPagesOfSmallBlocks, oom_.page_slack_bytes);
    add(FailureCause::kOtherProcess, others_bytes(oom_).value_or(0));
    if (oom_.growth) add(FailureCause::kGrowth, oom_.growth->grown_bytes);
  }

  /// Without the driver's figures only causes within the arena can be proved: its memory would have
  /// been enough by itself, or the driver was not asked.
  void without_driver() {
    if (refused_alone() && is_beyond_limit()) name(FailureCause::kOwnLimit, 0);
    for (const Cause& one : gathered_) {
      const bool inside =
          one.cause == FailureCause::kFragmented || one.cause == FailureCause::kGraphArena ||
          one.cause == FailureCause::kSetApart || one.cause == FailureCause::kGrowth;
      if (oom_.refused_by && inside && one.bytes >= oom_.requested_bytes)
        oom_.causes.push_back(one);
    }
    largest_first(oom_.causes);
  }

  /// For a context or code the driver does not say how much it needs. If this process holds
  /// nothing, it is not in the way.
  void without_amount() {
    const uint64_t others = others_bytes(oom_).value_or(0);
    if (oom_.live_bytes == 0 && others > 0) name(FailureCause::kOtherProcess, others);
  }

  void own_limit_of_host() {
    if (!oom_.host_limit.empty()) name(FailureCause::kOwnLimit, 0);
    if (oom_.refused_by && oom_.limit_bytes && is_beyond_limit()) name(FailureCause::kOwnLimit, 0);
  }

  OutOfMemory& oom_;
  std::vector<Cause> gathered_;
  bool idle_serves_ = false;
};

}  // namespace

void find_causes(OutOfMemory& oom) {
  oom.causes.clear();
  oom.parts.clear();
  Finder(oom).find();
}

std::optional<uint64_t> others_bytes(const OutOfMemory& oom) {
  if (!oom.ledger) return std::nullopt;
  if (oom.ledger->of_process) return oom.ledger->others_bytes;
  std::optional<int64_t> bytes;
  for (const LedgerRow& row : oom.ledger->rows) {
    if (row.cause == "start" || row.cause == "external") bytes = bytes.value_or(0) + row.bytes;
  }
  // Without a reading from before the first context, one row has both what was in use before and
  // the context.
  const bool apart = std::ranges::none_of(
      oom.ledger->rows, [](const LedgerRow& row) { return row.cause.ends_with("_and_context"); });
  if (!bytes) return apart ? std::optional<uint64_t>(0) : std::nullopt;
  return static_cast<uint64_t>(std::max<int64_t>(0, *bytes));
}

uint64_t needed_of_driver(const OutOfMemory& oom) {
  // An arena that maps page by page has asked for one page only.
  const bool by_pages = oom.refused_by && oom.refused_by->grows_in_place;
  const uint64_t asked =
      by_pages ? oom.requested_bytes : std::max(oom.requested_bytes, oom.driver_asked_bytes);
  return in_pages(asked);
}

}  // namespace gpupeak::collector
