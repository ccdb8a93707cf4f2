// Makes the names of virtual functions, as titles show them: `Gemm<float>::PrePack` if a rule names
// the slot, else `Gemm<float>::[virtual 5]`. ModuleSymbols asks for them.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/symbols/name_rules.h"

namespace gpupeak::collector {

// Which function of a library is which virtual function of which class, as plain values.
// rtti_reader.cc makes it from a file, ModuleSymbols reads it.
struct RttiTable {
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Class {
    std::string name;  ///< mangled, as type_info has it, without the '*' of internal classes
    uint32_t primary = kNone;  ///< the base with whose vtable this one's begins
    /// If that is not certain: the bases at the front of an object, some of which may be empty.
    std::vector<uint32_t> fronts;
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
};

/// Reads it from a file. `elf` may be nullptr: the table is empty.
RttiTable read_rtti(Elf* elf);

class RttiNames {
 public:
  /// `library`: the file's name without its folder. `version`: of its Python package, if it is in
  /// one, else of its symbols. `table` and `rules` must outlive this.
  RttiNames(const RttiTable& table, std::string_view library, std::string_view version,
            const NameRules* rules);

  /// The name of a function. Empty if even its class is not known: the linker folded functions of
  /// classes that share no base.
  std::string name_of(const RttiTable::Function& function) const;

 private:
  const std::string& class_name(uint32_t index) const;
  const std::string* slot_name(uint32_t layout, uint32_t slot, int* steps) const;

  const RttiTable& table_;
  std::unordered_map<std::string, const ClassRule*> rules_;  // rules that apply, by class
  mutable std::unordered_map<uint32_t, std::string> class_names_;
};

/// One library's table, read when it is first needed. One thread at a time may call it.
class LibraryRtti {
 public:
  explicit LibraryRtti(Elf* elf);  ///< which must outlive this
  ~LibraryRtti();

  /// The table; nullptr if it certainly has nothing about the address, since no vtable leads there.
  /// That can be seen without reading the library's code.
  const RttiTable* table_for(uint64_t address);

 private:
  struct Image;
  bool vtable_may_lead_to(uint64_t address);
  Image& image();

  Elf* elf_;
  std::unique_ptr<Image> image_;
  std::optional<RttiTable> table_;
  std::optional<RttiTable> at_most_;  ///< functions that may be in the table; nullopt: not read yet
};

}  // namespace gpupeak::collector
