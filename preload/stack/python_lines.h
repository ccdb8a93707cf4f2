// The line of an instruction, from a code object's line table. Pure functions on a copy of the
// table, of which the beginning is enough. Sources: CPython's Objects/lnotab_notes.txt (3.9, 3.10)
// and Objects/locations.md (since 3.11).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

enum class PythonLineTable : uint8_t { kLnotab, kLineTable, kLocations };

/// 1 and more: the line. 0: there is none, or the table says nothing of this instruction.
/// `offset` is in bytes. If the table goes on behind `bytes` and the answer lies there, kMore.
/// `used`: of how many of the table's first bytes the answer was made.
constexpr int kPythonLineMore = -1;
int python_line(PythonLineTable kind, const uint8_t* table, size_t bytes, bool is_whole,
                int first_line, uint32_t offset, size_t& used);

}  // namespace gpupeak::preload
