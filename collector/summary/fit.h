// Would this run fit a card of so much memory? Two bounds of what a device must have, and what they
// say about a capacity. need.h finds the bounds in a log, `gpupeak fit` shows the answer, `gpupeak
// sweep` takes the upper bound for its prediction.
//
//   least ≤ what the run needs ≤ most
//   capacity < least: does not fit · most + margin ≤ capacity: fits · between: may fit
//
// Between the bounds it also fits if it is known how an arena gives back idle memory, and a
// simulated run fails with no amount from the capacity down to the margin below it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// A card that one can buy or rent; from rules/cards.toml.
struct Card {
  std::string name;                  ///< "RTX 4090"
  std::vector<std::string> devices;  ///< globs of the names that CUDA gives it
  /// The total that cuMemGetInfo gives. It depends on the driver and on settings: the least and the
  /// most that were seen, or that are reckoned with.
  uint64_t least_bytes = 0, most_bytes = 0;
  bool by_size = false;  ///< reckoned from the size that it is sold with
  std::string note;      ///< where the figures come from, and when
};

/// Added to what a process was seen to need, on a card of the same kind: for the last pages that no
/// allocation gets, and for what readings may have missed.
inline constexpr uint64_t kSameCardMargin = 64u << 20;
/// Added as well on another kind of card, where contexts, code and libraries' workspaces have other
/// sizes: this, or half of the driver's own without local memory, whichever is more.
inline constexpr uint64_t kOtherCardMargin = 512u << 20;
/// The driver's local memory is for as many threads as a card can hold. The cards of
/// rules/cards.toml differ by up to seven times in that, so another kind of card may need this many
/// times as much.
inline constexpr uint64_t kLocalMemoryTimes = 8;

/// Amounts of memory from `begin` on and less than `end`.
struct FitRange {
  uint64_t begin = 0, end = 0;
};
/// Sorted; ranges that touch are one, empty ones are left out.
std::vector<FitRange> joined(std::vector<FitRange> ranges);

/// Memory of one kind that no bound counts, at its own peak.
struct LeftOut {
  struct Holder {
    std::string title;
    uint64_t bytes = 0;
  };
  std::string kind;  ///< "managed", "imported"
  uint64_t bytes = 0;
  std::vector<Holder> holders;  ///< largest first; with other_bytes they add up to bytes
  uint64_t other_bytes = 0;
};

/// What a run needs of one device. Each figure is the largest over all instants.
struct DeviceNeed {
  int32_t device = 0;
  std::string uuid, name;   ///< empty: not known
  uint64_t card_bytes = 0;  ///< of the card it ran on; 0: not known
  /// Handed out and not idle in an arena: what arenas have in use, and all outside of arenas.
  /// Without the driver's own. None: it is not known how much is idle.
  std::optional<uint64_t> in_use_bytes;
  /// The same with the driver's own. None: not known.
  std::optional<uint64_t> least_bytes;
  /// The most that pools had in use beyond what they were asked for. Neither of the two above
  /// counts it. None: the log does not tell it of any block, or there is no lower bound.
  std::optional<uint64_t> padding_bytes;
  uint64_t held_bytes = 0;  ///< in the driver's pages, idle or not; without the driver's own
  std::optional<uint64_t> most_bytes;  ///< the same with the driver's own; none: not known
  /// With these amounts a simulated run fails; with more than the last range it never does. In the
  /// simulation a framework's arena goes on as it does when it is refused memory, and nobody else
  /// takes what it gives back. Empty: not known; `no_simulation` says why (empty: there is no such
  /// arena).
  std::vector<FitRange> fails;
  /// For people: which arena was simulated, and what it does when it is refused memory.
  std::string simulated;
  std::string no_simulation;
  /// Requests to that arena, and how many of them got the recorded address in the simulation.
  uint64_t arena_requests = 0, arena_repeated = 0;
  std::optional<uint64_t> beyond_bytes;  ///< the driver's own: contexts, code …; none: not read
  uint64_t local_memory_bytes = 0;       ///< a part of beyond_bytes
  /// In use plus asked for, when a request ended the run. The run needs no less.
  std::optional<uint64_t> refused_bytes;
  /// Why a bound is not known, or does not hold.
  std::vector<std::string> no_most, no_least;
  std::vector<std::string> notes;
  std::vector<LeftOut> left_out;
};

/// What processes need that run at the same time on one device: no less than the largest of them,
/// no more than all of them together.
DeviceNeed together(const std::vector<DeviceNeed>& needs);
/// What a process needs that ran several programs one after the other.
DeviceNeed in_turn(const std::vector<DeviceNeed>& needs);

enum class Fit { kFits, kMayFit, kDoesNotFit, kUnknown };
/// As JSON has them: "fits", "may_fit", "does_not_fit", "unknown".
std::string_view fit_name(Fit fit);
/// The worse of two answers: of several devices the worst counts.
Fit worse(Fit a, Fit b);

/// What is compared with a capacity.
struct FitBounds {
  std::optional<uint64_t> least, most;  ///< none: not known
  uint64_t margin = 0;                  ///< part of `most`
  /// Ascending; capacities outside fit. Empty: those from `most` on fit.
  std::vector<FitRange> unsure;
};
/// `same_kind`: the card is like the one that was recorded.
FitBounds fit_bounds(const DeviceNeed& need, bool same_kind);

struct FitAnswer {
  Fit fit = Fit::kUnknown;
  FitBounds bounds;
  uint64_t capacity = 0;
  uint64_t left = 0;  ///< for kFits: what is left of the capacity
  /// For kDoesNotFit: at least this is missing; for kMayFit: at most this must become free.
  uint64_t missing = 0;
};
/// The capacity from which on it always fits, also by the simulation; none: not known.
std::optional<uint64_t> enough(const FitBounds& bounds);
/// `least_capacity`, `most_capacity`: between which the card's memory lies, as in Card.
FitAnswer fit_into(const FitBounds& bounds, uint64_t least_capacity, uint64_t most_capacity);
FitAnswer fit_on(const DeviceNeed& need, uint64_t capacity);
FitAnswer fit_on(const DeviceNeed& need, const Card& card);

/// Whether `device_name` is what CUDA calls this card.
bool is_card(const Card& card, std::string_view device_name);

}  // namespace gpupeak::collector
