// Opens a library or debug file for libdw. libdw unpacks without a bound: whole files that are
// packed (it takes them for kernels), compressed sections, the packed table of symbols. So the
// unpacked size is checked here. Sections packed by zstd are unpacked here.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "collector/files/regular_file.h"

namespace gpupeak::collector {

/// ELFCOMPRESS_ZLIB, and ELFCOMPRESS_ZSTD, which elf.h of glibc 2.36 lacks.
inline constexpr uint32_t kPackedByZlib = 1, kPackedByZstd = 2;

/// Opens an ELF file of bounded size, also when unpacked. On failure the descriptor is empty and
/// errno is set: ENXIO if it is no ELF file, EFBIG if it is too large. `status` is what fstat says.
Descriptor open_elf(const std::string& path, struct stat& status);

}  // namespace gpupeak::collector
