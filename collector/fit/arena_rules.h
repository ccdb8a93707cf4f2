// By which rules a log's arenas may have gone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "collector/fit/arena_model.h"
#include "collector/replay/replay.h"

namespace gpupeak::collector {

/// The rules of the arenas that alone share out their device's memory, where they are known;
/// several: any of them. PyTorch has one arena a device, ONNX Runtime one for each session that
/// does not share it.
std::multimap<int32_t, std::unique_ptr<ArenaModel>> rules_of(const Replay& replay);

}  // namespace gpupeak::collector
