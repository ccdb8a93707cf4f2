// The calls that held memory at some instants, as one tree with a bounded number of calls. A page
// draws the flame graph of each of these instants with it. What is below a call that is left out
// counts for its caller.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

struct HeldCalls {
  struct Call {
    uint32_t caller = 0;           ///< index of an earlier call
    std::string title;             ///< empty: the root
    const Frame* frame = nullptr;  ///< nullptr: the root, or blocks without a stack
  };
  std::vector<Call> calls;  ///< the first is the root
  /// By group: the innermost call of its stack that is in `calls`.
  std::map<GroupId, uint32_t> ends;
};

/// `largest`: the most that each group held; calls with most are chosen. `most`: how many calls.
HeldCalls held_calls(Profile& profile, const std::map<GroupId, uint64_t>& largest, size_t most);

}  // namespace gpupeak::collector
