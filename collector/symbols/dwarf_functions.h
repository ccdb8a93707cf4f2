// Functions and source lines from one module's debug information, with inlined calls. Symbolizer
// keeps one for each module that has any. A compilation unit is indexed when an address first needs
// it. Split units (.dwo) are read where the program says that they are.
#pragma once

#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/log/symbol_table.h"

namespace gpupeak::collector {

// How much of one module's debug information may still be read. Real information is read once
// or twice. Information that was made to do harm shares one long list of ranges, or one tree, among
// all its functions.
class DwarfPatience {
 public:
  /// `bytes`: the file's. Its sections may be compressed.
  explicit DwarfPatience(uint64_t bytes)
      : ranges_(kAlways + kPerByte * bytes), entries_(kAlways + kPerByte * bytes) {}

  /// False: it is at its end; ask for nothing more.
  bool take_range() { return take(ranges_, 1); }
  bool take_entry() { return take(entries_, 1); }
  /// Takes steps through what is gone through again and again.
  bool walk(uint64_t steps) { return take(steps_, steps); }
  /// Something was left out, or nearly.
  bool is_at_end() const { return ranges_ == 0 || entries_ == 0 || steps_ == 0; }

 private:
  static constexpr uint64_t kAlways = 1 << 20, kPerByte = 4;
  static bool take(uint64_t& left, uint64_t count) {
    left = left > count ? left - count : 0;
    return left > 0;
  }
  uint64_t ranges_, entries_;
  uint64_t steps_ = uint64_t{1} << 30;
};

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
  /// Whether both addresses are of one compilation unit, or `address` is of none.
  bool is_of_one_unit(uint64_t address, uint64_t other) const;
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
  class Scopes;

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
  std::unordered_map<const void*, std::unique_ptr<Scopes>> scopes_;  // by the unit's entry
};

// Why a module has no lines, although it has debug information or says where that is.
struct DebugTrouble {
  enum class Kind {
    kNone,
    kSplitMissing,    ///< units are in files of their own (.dwo) that are not there
    kPackageUnread,   ///< units are in a package (.dwp) that this libdw cannot read
    kCommonMissing,   ///< the common file (dwz) is missing, or another one is there
    kUnknownPacking,  ///< sections are packed in a way that libelf does not know
    kDamaged,
  };
  Kind kind = Kind::kNone;
  std::string file;      ///< the file that is missing, or has the trouble
  size_t units = 0;      ///< how many, for kSplitMissing and kPackageUnread
  uint32_t packing = 0;  ///< ch_type of the section, for kUnknownPacking
};

/// The trouble of the debug sections of an ELF file that libdw has opened. `all`: libdw could read
/// none of them.
DebugTrouble section_trouble(Elf* elf, const std::string& file, bool all);
/// The same for a file that libdw could not read.
DebugTrouble section_trouble(const std::string& file);

}  // namespace gpupeak::collector
