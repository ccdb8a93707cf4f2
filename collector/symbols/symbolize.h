// Resolves all addresses of a log, on the machine that has the binaries. `gpupeak symbolize` and
// `bundle` call it.
#pragma once

#include <cstddef>
#include <vector>

#include "collector/log/event_stream.h"
#include "collector/log/log_reader.h"
#include "collector/log/symbol_table.h"
#include "collector/summary/summary.h"
#include "collector/symbols/name_rules.h"
#include "collector/symbols/symbol_search.h"

namespace gpupeak::collector {

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
