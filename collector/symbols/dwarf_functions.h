// Functions and source lines of one module's debug information, inlined calls included. Symbolizer
// keeps one for each module that has any; compilation units are indexed when an address first needs
// them. Split units (.dwo) are read where the program says that they are.
#pragma once

#include <elfutils/libdw.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/log/symbol_table.h"
#include "collector/symbols/dwarf_patience.h"

namespace gpupeak::collector {

/// The C++ library's demangler refuses names from about this length on: of longer ones the debug
/// information's own form is taken.
inline constexpr size_t kLongestMangled = 1000;

class DwarfFunctions {
 public:
  /// `dwarf` must outlive this.
  /// `folders`: of the module and of its debug file, where split debug information may lie beside.
  DwarfFunctions(Dwarf* dwarf, const std::vector<std::string>& folders);
  ~DwarfFunctions();

  /// The function at `address` (of the debug file) and those it is inlined into, innermost first;
  /// empty if no compilation unit covers the address.
  std::vector<DwarfFrame> frames_at(uint64_t address);
  /// All that it says depends on these files' contents alone: nothing was left out, and no unit
  /// lies in a file of its own.
  bool is_complete() const { return !patience_.is_at_end() && !has_split_units_; }
  /// Units with code whose file could not be read: how many, and the file that the first one names.
  size_t missing_units() const { return missing_units_; }
  const std::string& missing_file() const { return missing_file_; }
  /// It ends where another unit should begin.
  bool is_damaged() const { return is_damaged_; }

 private:
  struct UnitRange {
    uint64_t begin, end;
    uint32_t unit;
  };
  struct Unit;

  void add_unit(Dwarf_Die* die, Dwarf_Die* functions, int version);
  void note_missing(Dwarf_Die* skeleton);
  Unit* unit_at(uint64_t address);
  std::string name_of(Dwarf_Die* die);

  DwarfPatience patience_;
  bool has_split_units_ = false, is_damaged_ = false;
  size_t missing_units_ = 0;
  std::string missing_file_;
  std::vector<UnitRange> unit_ranges_;  // sorted by begin
  std::vector<std::unique_ptr<Unit>> units_;
  std::unordered_map<Dwarf_Off, std::string> scopes_;  // by offset of the function's declaration
};

}  // namespace gpupeak::collector
