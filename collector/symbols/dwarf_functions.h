// Functions and source lines of one module's debug information, inlined calls included. Symbolizer
// keeps one for each module that has any; compilation units are indexed when an address first needs
// them.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/log/symbol_table.h"

namespace gpupeak::collector {

class DwarfFunctions {
 public:
  /// `dwarf` must outlive this.
  explicit DwarfFunctions(Dwarf* dwarf);
  ~DwarfFunctions();

  /// The function at `address` (of the debug file) and those it is inlined into, innermost first;
  /// empty if no compilation unit covers the address.
  std::vector<DwarfFrame> frames_at(uint64_t address);

 private:
  struct UnitRange {
    uint64_t begin, end;
    uint32_t unit;
  };
  struct Unit;

  void add_unit(Dwarf_Die* die);
  Unit* unit_at(uint64_t address);
  std::string name_of(Dwarf_Die* die);

  std::vector<UnitRange> unit_ranges_;  // sorted by begin
  std::vector<std::unique_ptr<Unit>> units_;
  std::unordered_map<Dwarf_Off, std::string> scopes_;  // by offset of the function's declaration
};

}  // namespace gpupeak::collector
