// One zstd frame, from pieces. Packed logs and partial results of merge are written by it.
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
  /// `threads`: besides the caller's; 0 also where zstd was built without.
  ZstdPacker(std::ostream& out, int level, int threads);
  /// What all pieces have together, where that is known.
  void pledge(uint64_t bytes) { ZSTD_CCtx_setPledgedSrcSize(context_.get(), bytes); }
  uint64_t written() const { return written_; }
  /// Ends at once where the output fails. Throws std::runtime_error where zstd does.
  void add(std::span<const uint8_t> piece, bool last);

 private:
  std::ostream& out_;
  uint64_t written_ = 0;
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context_;
  std::vector<char> buffer_;
};

}  // namespace gpupeak::collector
