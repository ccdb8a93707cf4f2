// Which function of a library is which virtual function of which class, as plain values.
// rtti_reader makes it from a file, rtti_cache keeps it, ModuleSymbols reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupeak::collector {

struct RttiTable {
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Class {
    std::string name;  ///< mangled, as type_info has it, without the '*' of internal classes
    uint32_t primary = kNone;  ///< the base with whose vtable this one's begins
    /// If that is not certain: the bases at the front of an object, some of which may be empty.
    std::vector<uint32_t> fronts;
    bool operator==(const Class&) const = default;
  };
  struct Function {
    uint64_t begin = 0, end = 0;
    uint32_t owner = kNone;    ///< its class; of several, the nearest base of all, or kNone
    uint32_t layout = kNone;   ///< the class in whose vtable `slot` counts; kNone: not known
    uint32_t slot = 0;         ///< from 0 on
    uint32_t class_count = 1;  ///< more than 1: it is of one of so many classes, not known which
    bool operator==(const Function&) const = default;
  };

  std::string version;  ///< of the library's symbols; empty: none
  std::vector<Class> classes;
  std::vector<Function> functions;  ///< by address, without overlaps

  /// The function at an address; nullptr: no virtual function is known there.
  const Function* function_at(uint64_t address) const;
  bool operator==(const RttiTable&) const = default;
};

}  // namespace gpupeak::collector
