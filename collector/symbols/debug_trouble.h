// Why there are no lines although a module has debug information, or says where it lies.
#pragma once

#include <libelf.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpupeak::collector {

struct DebugTrouble {
  enum class Kind {
    kNone,
    kSplitMissing,    ///< units lie in files of their own (.dwo) that are not there
    kPackageUnread,   ///< or in a package of them (.dwp), which this libdw cannot read
    kCommonMissing,   ///< the file that several have in common (dwz), or the one that is meant
    kUnknownPacking,  ///< sections are packed in a way that libelf does not know
    kDamaged,
  };
  Kind kind = Kind::kNone;
  std::string file;  ///< which one is missing, or has the trouble
  size_t units = 0;  ///< of kSplitMissing and kPackageUnread
  uint32_t packing = 0;
};

/// Of the sections of debug information in an ELF file that libdw has read; `all`: it could not.
DebugTrouble section_trouble(Elf* elf, const std::string& file, bool all);
/// The same of a file that libdw has given up.
DebugTrouble section_trouble(const std::string& file);

}  // namespace gpupeak::collector
