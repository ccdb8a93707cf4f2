// The functions of a C API that a stripped library hands out as a table:
//
//   OrtGetApiBase:  lea rax, [base]; ret          base:   GetApi, GetVersionString
//   GetApi:         … lea rax, [table]; … ret     table:  CreateStatus, …, CreateSession, …
//
// The exported function has a name and the words of tables are relocated, so all that the file does
// not tell is which slot is which function: a rule says that. ModuleSymbols asks for the names.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collector/symbols/name_rules.h"

namespace gpupeak::collector {

struct ApiFunction {
  uint64_t begin, end;
  std::string name;  ///< with the rule's before it: "OrtApis::CreateSession"
};

/// Ascending. `entry`: the address of the rule's exported function. Nothing if the table is not
/// found without doubt; no function that stands in several slots.
std::vector<ApiFunction> api_functions(Elf* elf, const TableRule& rule, uint64_t entry);

}  // namespace gpupeak::collector
