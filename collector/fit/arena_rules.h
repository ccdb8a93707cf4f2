// Finds the rules by which a log's arenas may have gone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "collector/fit/arena_model.h"
#include "collector/replay/replay.h"

namespace gpupeak::collector {

/// For each device of which only one allocator shares out memory: the rules that its arena may have
/// gone by. Several: by any of them; none: not known. PyTorch has one arena for each device, ONNX
/// Runtime one for each session that does not share its arena.
std::multimap<int32_t, std::unique_ptr<ArenaModel>> rules_of(const Replay& replay);

}  // namespace gpupeak::collector
