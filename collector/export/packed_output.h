// An export that is compressed as it is written: by the file's name, as `.gz` and `.zst`.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string_view>

namespace gpupeak::collector {

enum class OutputPacking { kNone, kGzip, kZstd };

/// `.gz` and `.zst`, else nothing.
OutputPacking packing_of(std::string_view path);

/// Has `write` write, compressed, to `out`. Throws std::runtime_error where a compressor does.
void write_packed(OutputPacking packing, std::ostream& out,
                  const std::function<void(std::ostream&)>& write);

}  // namespace gpupeak::collector
