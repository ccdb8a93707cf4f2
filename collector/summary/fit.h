// Would this run fit a card of so much memory? Two bounds of what a device must have, and what they
// say of a capacity. need.h finds the bounds in a log, `gpupeak fit` shows the answer, `gpupeak
// sweep` takes the upper bound for its prediction.
//
//   least ≤ what the run needs ≤ most
//   capacity < least: does not fit · most + margin ≤ capacity: fits · between: may fit
//
// Between them it fits also where it is known how an arena gives back what is idle, and nothing
// fails from the capacity down to the margin below it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// A card that one can buy or rent; rules/cards.toml.
struct Card {
  std::string name;                  ///< "RTX 4090"
  std::vector<std::string> devices;  ///< as CUDA names it: globs
  /// What cuMemGetInfo gives as the total, by driver and settings: the least and the most seen, or
  /// reckoned with.
  uint64_t least_bytes = 0, most_bytes = 0;
  bool by_size = false;  ///< reckoned from the size that it is sold by
  std::string note;      ///< where the figures come from, and when
};

/// Beyond what a process was seen to need on a card of the same kind: the last pages that no
/// allocation gets, and what readings may have missed.
inline constexpr uint64_t kSameCardMargin = 64u << 20;
/// On another kind of card contexts, code and libraries' workspaces have other sizes: this much
/// more, or half of what was there beyond tracked memory, whichever is more.
inline constexpr uint64_t kOtherCardMargin = 512u << 20;
/// Local memory is for as many threads as a card can hold. The cards of rules/cards.toml differ by
/// up to seven times in that.
inline constexpr uint64_t kLocalMemoryTimes = 8;

/// Amounts of memory: from `begin` to before `end`.
struct FitRange {
  uint64_t begin = 0, end = 0;
};
/// Ascending, without those that touch.
std::vector<FitRange> joined(std::vector<FitRange> ranges);

/// Memory that no bound counts: at its own peak.
struct LeftOut {
  struct Holder {
    std::string title;
    uint64_t bytes = 0;
  };
  std::string kind;  ///< "managed", "imported"
  uint64_t bytes = 0;
  std::vector<Holder> holders;  ///< largest first; with other_bytes they add up to it
  uint64_t other_bytes = 0;
};

/// What a run needs of one device, largest over all instants of each sum.
struct DeviceNeed {
  int32_t device = 0;
  std::string uuid, name;   ///< empty: not known
  uint64_t card_bytes = 0;  ///< of the card it ran on; 0: not known
  /// Handed out and not idle in an arena: what arenas have in use, and all outside of them. Without
  /// the driver's own. None: it is not known what of it is idle.
  std::optional<uint64_t> in_use_bytes;
  /// The same with the driver's own. None: not known.
  std::optional<uint64_t> least_bytes;
  /// What pools had in use at most beyond what they were asked for, which is in none of the two.
  /// None: the log does not tell of any block, or there is no lower bound.
  std::optional<uint64_t> padding_bytes;
  uint64_t held_bytes = 0;             ///< in the driver's pages, idle or not; without its own
  std::optional<uint64_t> most_bytes;  ///< the same with the driver's own; none: not known
  /// With which amounts a simulated run fails, in which a framework's arena goes on as it does when
  /// it is refused memory, and nobody else takes what it gives back; with more than the last one it
  /// never does. Empty: not known, as `no_simulation` says (empty: no such pool).
  std::vector<FitRange> fails;
  std::string simulated;  ///< for people: which arena, which does what then
  std::string no_simulation;
  /// Requests to that arena, and how many of them a simulation gives the address that they had.
  uint64_t arena_requests = 0, arena_repeated = 0;
  std::optional<uint64_t> beyond_bytes;  ///< the driver's own: contexts, code …; none: not read
  uint64_t local_memory_bytes = 0;       ///< part of it
  /// Of what ended the run: what it had in use and asked for. Not more than it needs.
  std::optional<uint64_t> refused_bytes;
  /// Why a bound is not known, or not a bound.
  std::vector<std::string> no_most, no_least;
  std::vector<std::string> notes;
  std::vector<LeftOut> left_out;
};

/// Of processes that run at the same time on one device: no less than the largest of them, no more
/// than all of them.
DeviceNeed together(const std::vector<DeviceNeed>& needs);
/// Of programs that a process ran one after the other.
DeviceNeed in_turn(const std::vector<DeviceNeed>& needs);

enum class Fit { kFits, kMayFit, kDoesNotFit, kUnknown };
/// As JSON has them: "fits", "may_fit", "does_not_fit", "unknown".
std::string_view fit_name(Fit fit);
/// For people: "fits", "may fit" …
std::string_view fit_text(Fit fit);
/// The worse of two: of several devices the worst counts.
Fit worse(Fit a, Fit b);

/// What is compared with a capacity.
struct FitBounds {
  std::optional<uint64_t> least, most;  ///< none: not known
  uint64_t margin = 0;                  ///< part of `most`
  std::vector<FitRange> unsure;  ///< ascending; other capacities fit. Empty: only from `most`
};
/// `same_kind`: a card like the one that was recorded.
FitBounds fit_bounds(const DeviceNeed& need, bool same_kind);

struct FitAnswer {
  Fit fit = Fit::kUnknown;
  FitBounds bounds;
  uint64_t capacity = 0;
  uint64_t left = 0;     ///< of kFits
  uint64_t missing = 0;  ///< of kDoesNotFit: at least; of kMayFit: what must become free, at most
};
/// From where on it always fits, with a simulation's help; none: not known.
std::optional<uint64_t> enough(const FitBounds& bounds);
FitAnswer fit_into(const FitBounds& bounds, uint64_t least_capacity, uint64_t most_capacity);
FitAnswer fit_on(const DeviceNeed& need, uint64_t capacity);
FitAnswer fit_on(const DeviceNeed& need, const Card& card);

/// Whether CUDA calls this card so.
bool is_card(const Card& card, std::string_view device_name);

}  // namespace gpupeak::collector
