// What differs between processors when a file is read as the dynamic linker sees it: the
// relocations that it has, and how its code refers to data. loaded_image asks.
#pragma once

#include <cstdint>
#include <vector>

namespace gpupeak::collector {

/// Machine code as the file has it.
struct Code {
  const uint8_t* bytes;
  uint64_t begin, end;  ///< addresses
};

struct Machine {
  uint64_t relative, absolute,
      global;  ///< types of relocations: of an address in the file, of a symbol's
  /// Addresses from `begin` to `end` that the code refers to. One too many ends a vtable early, and
  /// costs names; one that is missed may give a function another's name. `starts`: of functions,
  /// ascending.
  std::vector<uint64_t> (*referred)(const Code& code, uint64_t begin, uint64_t end,
                                    const std::vector<uint64_t>& starts);
  /// Addresses that a function takes, in its order; some that only look so among them.
  std::vector<uint64_t> (*taken)(const Code& function);
  bool cut_anywhere;  ///< `referred` finds the same in pieces that do not begin with a function
};
extern const Machine kX86_64;
extern const Machine kAarch64;

}  // namespace gpupeak::collector
