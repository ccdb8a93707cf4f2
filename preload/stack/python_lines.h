// The line of an instruction, from a code object's line table. Pure functions on a copy of the
// table; its beginning may be enough. Sources: CPython's Objects/lnotab_notes.txt (3.9, 3.10) and
// Objects/locations.md (since 3.11).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

enum class PythonLineTable : uint8_t { kLnotab, kLineTable, kLocations };

/// Returns the line (1 or more); 0: there is none, or the table does not have this instruction;
/// kPythonLineMore: the answer lies in the part of the table behind `bytes`. `offset`: of the
/// instruction, in bytes. `used`: how many of the table's first bytes the answer was made of.
constexpr int kPythonLineMore = -1;
int python_line(PythonLineTable kind, const uint8_t* table, size_t bytes, bool is_whole,
                int first_line, uint32_t offset, size_t& used);

}  // namespace gpupeak::preload
