#include "collector/fit/arena_rules.h"

#include <set>
#include <string_view>

#include "collector/fit/bfc_arena.h"
#include "collector/fit/torch_cache.h"

namespace gpupeak::collector {

std::multimap<int32_t, std::unique_ptr<ArenaModel>> rules_of(const Replay& replay) {
  std::multimap<int32_t, std::unique_ptr<ArenaModel>> rules;
  std::set<int32_t> seen, torch;
  for (const ArenaTable::Arena& arena : replay.arenas().arenas()) {
    const int32_t device = arena.place;
    if (device < 0 || arena.alloc_count == 0) continue;
    const std::string_view name = replay.name(arena.name);
    const bool is_first = seen.insert(device).second;
    rules.erase(device);
    if (name == "PyTorch" && (is_first || torch.contains(device))) {
      torch.insert(device);
      rules.emplace(device, std::make_unique<TorchCache>());
    } else if (name.starts_with("ONNX Runtime") && is_first && arena.count == 1) {
      using Extends = BfcArena::Extends;
      rules.emplace(device, std::make_unique<BfcArena>(Extends::kNextPowerOfTwo));
      rules.emplace(device, std::make_unique<BfcArena>(Extends::kSameAsRequested));
    }
  }
  return rules;
}

}  // namespace gpupeak::collector
