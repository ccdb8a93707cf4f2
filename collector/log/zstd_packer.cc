#include "collector/log/zstd_packer.h"

#include <stdexcept>

namespace gpupeak::collector {

ZstdPacker::ZstdPacker(std::ostream& out, int level, int threads)
    : out_(out), context_(ZSTD_createCCtx(), &ZSTD_freeCCtx), buffer_(ZSTD_CStreamOutSize()) {
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_nbWorkers, threads);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
  // Programs repeat themselves at longer distances than a level looks back. A larger window would
  // find more, but whoever unpacks needs memory for all of it.
  constexpr int kWindowBits = 25;
  constexpr int kJobBytes = 8 << 20;  // by default a thread takes four windows at a time
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_enableLongDistanceMatching, 1);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_windowLog, kWindowBits);
  if (threads > 0) ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_jobSize, kJobBytes);
}

void ZstdPacker::add(std::span<const uint8_t> piece, bool last) {
  ZSTD_inBuffer in{piece.data(), piece.size(), 0};
  for (bool more = true; more && out_;) {
    ZSTD_outBuffer to{buffer_.data(), buffer_.size(), 0};
    const size_t left =
        ZSTD_compressStream2(context_.get(), &to, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left) != 0) throw std::runtime_error(ZSTD_getErrorName(left));
    out_.write(buffer_.data(), static_cast<std::streamsize>(to.pos));
    written_ += to.pos;
    more = last ? left != 0 : in.pos != in.size;
  }
}

}  // namespace gpupeak::collector
