// The calls of what was held at some instants, as one tree with a bounded number of calls: a page
// draws the flame graph of any of these instants with it. What lies below a call that is left out
// is held by its caller.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

struct HeldCalls {
  struct Call {
    uint32_t caller = 0;           ///< index of an earlier one
    std::string title;             ///< empty: of the root
    const Frame* frame = nullptr;  ///< nullptr: of the root, or of blocks without a stack
  };
  std::vector<Call> calls;  ///< the first is the root
  std::map<GroupId, uint32_t>
      ends;  ///< by group: the innermost call of its stack that is in `calls`
};

/// `largest`: the most that each group held. Calls are chosen by that. `most`: how many calls.
HeldCalls held_calls(Profile& profile, const std::map<GroupId, uint64_t>& largest, size_t most);

}  // namespace gpupeak::collector
