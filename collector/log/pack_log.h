// Compresses logs to the packages that packed_log.h describes. `gpupeak compress`, `bundle` and
// `run` do it.
#pragma once

#include <zstd.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "collector/log/log_reader.h"

namespace gpupeak::collector {

// Writes one zstd frame from pieces. Used for packed logs and for partial results of merge.

class ZstdPacker {
 public:
  /// `threads`: in addition to the caller's; without effect where zstd was built without threads.
  ZstdPacker(std::ostream& out, int level, int threads);
  /// Tells zstd the bytes of all pieces together. Call it first, if they are known.
  void pledge(uint64_t bytes) { ZSTD_CCtx_setPledgedSrcSize(context_.get(), bytes); }
  uint64_t written() const { return written_; }
  /// Compresses a piece. Stops if the output fails. Throws std::runtime_error if zstd fails.
  void add(std::span<const uint8_t> piece, bool last);

 private:
  std::ostream& out_;
  uint64_t written_ = 0;
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context_;
  std::vector<char> buffer_;
};

struct Packing {
  int level = 9;    ///< as the zstd command's
  int threads = 0;  ///< in addition to the caller's; no effect where zstd has no threads
  /// The package takes the log's own name: gpupeak_packed_mark comes first. Behind it are the log's
  /// columns (log_columns.h) in parts, each made by a thread, and no symbols.
  bool in_place = false;
};

/// Thrown if the log shrinks so far that no verb would read the package.
struct TooUniform : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Writes the package of `log` and `symbols` to `out`; without symbols if they are empty. Stops if
/// `out` fails. Throws TooUniform, after all is written.
void write_packed(std::span<const uint8_t> log, std::string_view symbols, std::ostream& out,
                  const Progress& progress, const Packing& packing = {});

}  // namespace gpupeak::collector
