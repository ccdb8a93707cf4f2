// The rules that a user asks for, as the collector takes them.
#pragma once

#include "collector/rules/rule_book.h"
#include "commands.h"

namespace gpupeak::tools {

inline collector::RuleChoice rule_choice(const RuleOptions& options) {
  return {options.sets, options.phases, options.tags};
}

}  // namespace gpupeak::tools
