// What was live at chosen instants of a log: the peaks, the borders of phases, failed allocations,
// and the highest moments of an even spread over the run. The page shows them where one clicks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collector/profile.h"
#include "collector/time_series.h"

namespace gpupeak::collector {

/// The largest holders of one kind on one side, and what the others sum up to.
struct KindHolders {
  int32_t device = -1;  ///< -1: the host, or no known device
  uint8_t kind = 0;
  struct Row {
    uint32_t row = 0;  ///< index into Instants::rows
    uint64_t bytes = 0, count = 0;
  };
  std::vector<Row> rows;  ///< largest first
  uint64_t other_bytes = 0, other_rows = 0;
};

struct Instant {
  uint64_t event = 0;  ///< its number: the state is that after it
  int64_t time_ns = 0;
  std::string reason;  ///< "peak of host", "failed allocation"; empty: of the even spread
  std::vector<KindHolders> kinds;
};

struct Instants {
  std::vector<Holder> rows;  ///< title, kind and module; figures are those of the instants
  std::vector<Instant> instants;
};

inline constexpr size_t kMaxInstants = 200;

/// Replays the log once more. Of each kind `top` rows by site; with the others they add up to the
/// sum at that instant to the byte. Throws std::logic_error if they do not.
Instants live_at_instants(Profile& profile, const TimeSeries& times, size_t top,
                          const Progress& progress = {});

}  // namespace gpupeak::collector
