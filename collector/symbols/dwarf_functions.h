// Functions and source lines from one module's debug information, with inlined calls. Symbolizer
// keeps one for each module that has any. A compilation unit is indexed when an address first needs
// it. Split units (.dwo) are read where the program says that they are.
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

/// The C++ library's demangler refuses names that are about as long as this. For longer ones the
/// debug information's own form is used.
inline constexpr size_t kLongestMangled = 1000;

class DwarfFunctions {
 public:
  /// `dwarf` must outlive this. `folders`: the module's folder and its debug file's, beside which
  /// split debug information may lie.
  DwarfFunctions(Dwarf* dwarf, const std::vector<std::string>& folders);
  ~DwarfFunctions();

  /// The function at `address` (of the debug file) and the functions into which it is inlined,
  /// innermost first. Empty if no compilation unit covers the address.
  std::vector<DwarfFrame> frames_at(uint64_t address);
  /// Whether all answers depend on the contents of these files alone: nothing was left out, and no
  /// unit is in a file of its own.
  bool is_complete() const { return !patience_.is_at_end() && !has_split_units_; }
  /// How many units with code were in files that could not be read, and the name of the first such
  /// file.
  size_t missing_units() const { return missing_units_; }
  const std::string& missing_file() const { return missing_file_; }
  /// The debug information ends where another unit should begin.
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
  std::unordered_map<Dwarf_Off, std::string> scopes_;  // by the offset of a function's declaration
};

}  // namespace gpupeak::collector
