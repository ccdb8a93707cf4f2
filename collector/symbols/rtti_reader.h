// Reads classes and their virtual functions out of a library that may have lost all its names:
// exceptions and dynamic_cast need type_info, which relocations alone tell apart from other data.
// Nothing is guessed: what could be read in two ways gets no name.
#pragma once

#include <libelf.h>

#include <memory>

#include "collector/symbols/loaded_image.h"
#include "collector/symbols/rtti_table.h"

namespace gpupeak::collector {

/// In two steps, the first of which costs a small part of the second. Empty for a file without
/// type information, or one that is no ELF file of x86-64 or aarch64.
class RttiReader {
 public:
  explicit RttiReader(const LoadedImage& image);  ///< which must outlive this
  ~RttiReader();

  /// The functions that table() may name, and some others: without a look at the code, so what
  /// follows a vtable may be taken for a part of it. Only where they begin and end.
  RttiTable functions_at_most() const;
  RttiTable table();  ///< once; looks at all code

 private:
  class Steps;
  std::unique_ptr<Steps> steps_;  ///< nullptr: there is nothing to read
};

RttiTable read_rtti(Elf* elf);

}  // namespace gpupeak::collector
