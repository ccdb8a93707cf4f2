// What differs between processors when a file is read as the dynamic linker sees it: its
// relocations, and how its code refers to data. loaded_image uses it.
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
  /// Types of relocations: of an address in the file, and two of a symbol's address.
  uint64_t relative, absolute, global;
  /// The addresses in [begin, end) that the code refers to. One too many ends a vtable early, and
  /// costs names; one too few may give a function another one's name. `starts`: where functions
  /// begin, ascending.
  std::vector<uint64_t> (*referred)(const Code& code, uint64_t begin, uint64_t end,
                                    const std::vector<uint64_t>& starts);
  /// The addresses that a function takes, in its order; among them may be values that only look
  /// like one.
  std::vector<uint64_t> (*taken)(const Code& function);
  bool cut_anywhere;  ///< `referred` also finds all in pieces that do not begin with a function
};
extern const Machine kX86_64;
extern const Machine kAarch64;

}  // namespace gpupeak::collector
