// Reads classes and their virtual functions from a library that may have lost all its names.
// Exceptions and dynamic_cast need type_info, which relocations alone tell apart from other data.
// Nothing is guessed: what could be read in two ways gets no name.
#pragma once

#include <libelf.h>

#include <memory>

#include "collector/symbols/loaded_image.h"
#include "collector/symbols/rtti_names.h"

namespace gpupeak::collector {

/// Reads in two steps; the first costs a small part of the second. The result is empty for a file
/// without type information, and for one that is no ELF file of x86-64 or aarch64.
class RttiReader {
 public:
  explicit RttiReader(const LoadedImage& image);  ///< which must outlive this
  ~RttiReader();

  /// The functions that table() may name, and some others: the code is not looked at, so that what
  /// follows a vtable may be taken for a part of it. It only has where they begin and end.
  RttiTable functions_at_most() const;
  RttiTable table();  ///< call it once; looks at all code

 private:
  class Steps;
  std::unique_ptr<Steps> steps_;  ///< nullptr: there is nothing to read
};

/// Both steps at once. `elf` may be nullptr: the table is empty.
RttiTable read_rtti(Elf* elf);

}  // namespace gpupeak::collector
