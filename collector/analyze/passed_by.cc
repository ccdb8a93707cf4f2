#include "collector/analyze/passed_by.h"

#include <cstdlib>

#include "collector/log/log_process.h"

namespace gpupeak::collector {

std::optional<PassedBy> passed_by(const Replay& replay) {
  constexpr int64_t kNoise = 32 << 20;
  // For small blocks from before that share the driver's pages.
  constexpr uint64_t kShareOfFreed = 8;
  const DeviceGrowth& growth = replay.device_growth();
  if (!is_of_attached(replay.log().header()) || !growth.is_known()) return std::nullopt;
  PassedBy sum{.bytes = static_cast<int64_t>(growth.given_back()), .knows_others = true};
  bool any = false;
  for (const auto& [device, ledger] : replay.device().ledgers()) {
    if (!ledger.last()) continue;
    any = true;
    sum.bytes += ledger.last()->unexplained;
    sum.knows_others &= ledger.others_at_start().has_value();
  }
  const auto noise = kNoise + static_cast<int64_t>(growth.given_back() / kShareOfFreed);
  if (!any || std::llabs(sum.bytes) <= noise) return std::nullopt;
  return sum;
}

}  // namespace gpupeak::collector
