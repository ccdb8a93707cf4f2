// The names of XLA's compiled programs. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>
#include <string_view>

#include "track/phases.h"

namespace gpupeak::preload {

/// The name of a loaded program; empty: not known in this log.
Name xla_program_name(uint64_t program);
/// Gives a name to a program, and returns the name with its id in this log.
Name name_xla_program(uint64_t program, std::string_view name);
void xla_program_gone(uint64_t program);

/// In a forked child.
void reset_xla_programs();

}  // namespace gpupeak::preload
