// How a library or debug file is opened for libdw, which unpacks without a bound: whole files that
// are packed (it takes them for kernels), compressed sections, the table of symbols packed in one.
// Sections that are packed by zstd are unpacked here.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "collector/files/descriptor.h"

namespace gpupeak::collector {

/// ELFCOMPRESS_ZLIB, and ELFCOMPRESS_ZSTD, which elf.h of glibc 2.36 lacks.
inline constexpr uint32_t kPackedByZlib = 1, kPackedByZstd = 2;

/// An ELF file of a bounded size, also once unpacked. None and errno if it cannot be opened or is
/// none (then ENXIO), or is too large (EFBIG). `status` is what fstat says.
Descriptor open_elf(const std::string& path, struct stat& status);

}  // namespace gpupeak::collector
