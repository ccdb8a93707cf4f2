#include "collector/fit/held_run.h"

#include <algorithm>
#include <functional>
#include <future>
#include <utility>

#include "collector/fit/arena_forecast.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {
namespace {

/// All variants together may go through so many steps, some seconds.
constexpr uint64_t kMostWork = 30'000'000;
/// If that is too little to try every capacity at which the run goes another way, they are at most
/// this far apart.
constexpr uint64_t kCoarsest = 8u << 20;

/// The amounts with which one variant fails. It tries `runs` amounts, each at least `apart` below
/// the one before, or where the run goes another way.
std::optional<std::vector<FitRange>> fails_of(const ArenaRequests& history, uint64_t least,
                                              uint64_t most, uint64_t runs, uint64_t apart,
                                              unsigned variant) {
  std::vector<FitRange> fails;
  uint64_t known = most + 1;  // from this amount on the answer is known
  bool fits = true;           // whether the run fits there
  for (uint64_t i = 0; i < runs && known > least; ++i) {
    const uint64_t capacity = known - std::min(known, known > most ? 1 : apart);
    const HeldRun run = hold(history, capacity, variant);
    if (known > most && !run.fits) return std::nullopt;
    // Amounts between two that were tried count as the worse of them.
    if (!run.fits) {
      fails.push_back({run.needed, known});
    } else if (!fits && capacity + 1 < known) {
      fails.push_back({capacity + 1, known});
    }
    known = run.needed;
    fits = run.fits;
  }
  if (known > least) fails.push_back({0, known});
  return fails;
}

}  // namespace

HeldRun hold(const ArenaRequests& history, uint64_t capacity, unsigned variant) {
  using Asked = ArenaForecast::Asked;
  const bool is_mixed = variant >= 4;
  const Asked asked = variant % 2 == 0 ? Asked::kMost : Asked::kLeast;
  const Asked places = variant / 2 == 0 ? Asked::kMost : Asked::kLeast;
  ArenaForecast arena(history, ArenaForecast::Rules::kAsRecorded, is_mixed ? Asked::kMixed : asked,
                      variant, capacity, is_mixed ? Asked::kMixed : places);
  const bool fits = arena.run();
  return {fits, arena.needed()};
}

std::optional<std::vector<FitRange>> fails_for(const ArenaRequests& history, uint64_t least,
                                               uint64_t most) {
  const uint64_t runs =
      kMostWork / kHeldRunVariants / std::max<uint64_t>(history.steps().size(), 1) + 1;
  // Runs go another way where a segment has room or not, so the amounts are some pages apart.
  const uint64_t span = most - std::min(least, most);
  const uint64_t apart = span / runs < kDriverPageBytes ? 1 : std::min(span / runs, kCoarsest);
  std::vector<std::future<std::optional<std::vector<FitRange>>>> variants;
  for (unsigned variant = 0; variant < kHeldRunVariants; ++variant) {
    variants.push_back(std::async(std::launch::async | std::launch::deferred, fails_of,
                                  std::cref(history), least, most, runs, apart, variant));
  }
  std::vector<FitRange> all{{0, least}};
  bool contradicts = false;
  for (auto& variant : variants) {
    const std::optional<std::vector<FitRange>> fails = variant.get();
    if (fails) {
      all.insert(all.end(), fails->begin(), fails->end());
    } else {
      contradicts = true;
    }
  }
  if (contradicts) return std::nullopt;
  return joined(std::move(all));
}

}  // namespace gpupeak::collector
