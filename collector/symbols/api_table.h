// Finds the functions of a C API that a stripped library hands out as a table:
//
//   OrtGetApiBase:  lea rax, [base]; ret          base:   GetApi, GetVersionString
//   GetApi:         … lea rax, [table]; … ret     table:  CreateStatus, …, CreateSession, …
//
// The exported function has a name, and the words of tables are relocated. The file only does not
// tell which slot is which function: a rule tells that. ModuleSymbols asks for the names.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collector/symbols/name_rules.h"

namespace gpupeak::collector {

struct ApiFunction {
  uint64_t begin, end;
  std::string name;  ///< with the rule's name in front: "OrtApis::CreateSession"
};

/// The functions by address. `entry`: the address of the rule's exported function. Empty if the
/// table is not found for certain. A function that is in several slots is left out.
std::vector<ApiFunction> api_functions(Elf* elf, const TableRule& rule, uint64_t entry);

}  // namespace gpupeak::collector
