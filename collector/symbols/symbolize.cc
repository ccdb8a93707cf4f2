#include "collector/symbols/symbolize.h"

#include <set>
#include <utility>

#include "collector/symbols/symbolizer.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kProgressStep = 256;

}  // namespace

Symbolized symbolize(const LogReader& log, const SymbolSearch& search, const NameRules& rules,
                     const Progress& progress) {
  const Definitions& definitions = log.definitions();
  Symbolizer symbolizer(definitions, search, &log.symbols(), &rules);
  Symbolized result;
  std::set<std::pair<uint32_t, uint64_t>> seen;
  for (uint32_t id = 1; id < definitions.nodes().size(); ++id) {
    if (progress && id % kProgressStep == 0) progress(id, definitions.nodes().size());
    const StackNode& node = definitions.nodes()[id];
    if (definitions.python_frame(node) != nullptr) continue;
    if (!seen.emplace(node.module, node.ip).second) continue;
    ++result.addresses;
    std::vector<DwarfFrame> frames = symbolizer.look_up(id);
    if (frames.empty()) continue;
    ++result.named;
    const Module& module = definitions.modules()[node.module];
    result.table.add(module, node.ip - module.bias - 1, std::move(frames));
  }
  for (const auto& [id, problem] : symbolizer.problems()) {
    result.table.add_problem(definitions.modules()[id], problem);
  }
  result.warnings = symbolizer.warnings();
  return result;
}

}  // namespace gpupeak::collector
