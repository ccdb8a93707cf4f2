// Reads classes and their virtual functions out of a library that may have lost all its names:
// exceptions and dynamic_cast need type_info, which relocations alone tell apart from other data.
// Nothing is guessed: what could be read in two ways gets no name.
#pragma once

#include <libelf.h>

#include "collector/symbols/loaded_image.h"
#include "collector/symbols/rtti_table.h"

namespace gpupeak::collector {

/// Empty for a file without type information, or one that is no ELF file of x86-64 or aarch64.
RttiTable read_rtti(Elf* elf);
RttiTable read_rtti(const LoadedImage& image);

}  // namespace gpupeak::collector
