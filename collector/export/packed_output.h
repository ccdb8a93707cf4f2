// An export that is compressed as it is written: by the file's name, as `.gz` and `.zst`.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string_view>

namespace gpupeak::collector {

enum class OutputPacking { kNone, kGzip, kZstd };

/// By the ending of the path: `.gz`, `.zst`; else kNone.
OutputPacking packing_of(std::string_view path);

/// Calls `write` with a stream, and writes to `out` what that gets, compressed. Throws
/// std::runtime_error if the compressor fails.
void write_packed(OutputPacking packing, std::ostream& out,
                  const std::function<void(std::ostream&)>& write);

}  // namespace gpupeak::collector
