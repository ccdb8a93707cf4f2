// The names of a log's addresses in modules that may change, looked up when the run has ended, so
// that reports of it stay the same when they have changed. tools/run_names calls it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "collector/log/log_reader.h"
#include "collector/log/symbol_table.h"
#include "collector/symbols/name_rules.h"

namespace gpupeak::collector {

struct NamesBudget {
  bool of_system = false;   ///< modules of the system's packages, too
  bool large_files = true;  ///< those, too, that may take longer to read than there is time
  uint64_t bytes = 0;       ///< of the table as text, about
  std::chrono::steady_clock::time_point until;
};

struct KeptNames {
  SymbolTable table;
  size_t modules = 0;   ///< whose names are in the table
  size_t left_out = 0;  ///< that did not fit into the budget, wholly or in part
};

/// The smallest files first. `before_large`, which may be empty, gets what there is so
/// far, before a file is begun that may take longer than there is time. Throws LogError.
KeptNames keep_names(const LogReader& log, const NameRules& rules, const NamesBudget& budget,
                     const std::function<void(const KeptNames&)>& before_large);

}  // namespace gpupeak::collector
