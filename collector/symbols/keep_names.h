// Looks up the names of a log's addresses in modules that may change, when the run has ended, so
// that its reports stay the same when they have changed. tools/run_names calls it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "collector/log/log_reader.h"
#include "collector/log/symbol_table.h"
#include "collector/summary/summary.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/name_rules.h"

namespace gpupeak::collector {

struct NamesBudget {
  bool of_system = false;   ///< also modules of the system's packages
  bool large_files = true;  ///< also files that may take longer to read than there is time
  uint64_t bytes = 0;       ///< most bytes of the table as text, about
  std::chrono::steady_clock::time_point until;
  SymbolSearch search{};
  bool gone_alone = false;  ///< of the files in search.opened alone, else of all others
};

struct KeptNames {
  SymbolTable table;
  size_t modules = 0;   ///< how many the table tells of
  size_t left_out = 0;  ///< how many did not fit into the budget, or only in part
};

/// Looks the names up, the smallest files first. Before it begins a file that may take longer than
/// there is time, it calls `before_large`, which may be empty, with what there is so far. Throws
/// LogError.
KeptNames keep_names(const LogReader& log, const NameRules& rules, const NamesBudget& budget,
                     const std::function<void(const KeptNames&)>& before_large);

// Resolves all addresses of a log, on the machine that has the binaries. `gpupeak bundle` and
// `bundle` call it.
struct Symbolized {
  SymbolTable table;
  size_t addresses = 0;  ///< different ones in the log's stacks
  size_t named = 0;      ///< how many of them have a function
  std::vector<Warning> warnings;
};

/// Looks up each different address in the log's stacks once.
Symbolized symbolize(const LogReader& log, const SymbolSearch& search, const NameRules& rules,
                     const Progress& progress = {});

}  // namespace gpupeak::collector
