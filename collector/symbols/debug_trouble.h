// Why a module has no lines, although it has debug information or says where that is.
#pragma once

#include <libelf.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpupeak::collector {

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
