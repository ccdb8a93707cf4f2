// Compresses an export while it is written, if the file's name ends in `.gz` or `.zst`.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string_view>

namespace gpupeak::collector {

enum class OutputPacking { kNone, kGzip, kZstd };

/// The packing for the ending of the path: `.gz`, `.zst`; else kNone.
OutputPacking packing_of(std::string_view path);

/// Calls `write` with a stream, and writes to `out` what the stream gets, compressed. Throws
/// std::runtime_error if the compressor fails.
void write_packed(OutputPacking packing, std::ostream& out,
                  const std::function<void(std::ostream&)>& write);

}  // namespace gpupeak::collector
