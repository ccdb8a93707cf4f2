// Writes one zstd frame from pieces. Used for packed logs and for partial results of merge.
#pragma once

#include <zstd.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <vector>

namespace gpupeak::collector {

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

}  // namespace gpupeak::collector
