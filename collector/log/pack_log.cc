#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "collector/log/packed_log.h"
#include "collector/text/text_format.h"
#include "gpupeak/log_format.h"

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

namespace {

constexpr size_t kStepBytes = 4 << 20;

/// Returns how many bytes it has written.
uint64_t pack_frame(std::span<const uint8_t> from, std::ostream& out, const Progress& progress,
                    const Packing& packing) {
  ZstdPacker packer(out, packing.level, packing.threads);
  packer.pledge(from.size());
  for (size_t done = 0; out;) {
    const size_t step = std::min(kStepBytes, from.size() - done);
    const bool last = done + step == from.size();
    packer.add(from.subspan(done, step), last);
    done += step;
    if (progress) progress(done, from.size());
    if (last) break;
  }
  return packer.written();
}

void write_skippable(std::string_view text, std::ostream& out) {
  const uint32_t header[] = {GPUPEAK_PACKED_MAGIC, static_cast<uint32_t>(text.size())};
  static_assert(sizeof header == kSkippableHeader);
  out.write(reinterpret_cast<const char*>(header), sizeof header);
  out << text;
}

/// Joins the block again and compares: a block counts only if it gives the stretch again, since the
/// log itself will be deleted.
void check_block(const ColumnBlock& block, std::span<const uint8_t> stretch) {
  join_columns(block, "it", [&stretch](const char* bytes, size_t size) {
    if (size > stretch.size() || memcmp(bytes, stretch.data(), size) != 0)
      throw std::runtime_error("it cannot be packed without loss");
    stretch = stretch.subspan(size);
  });
}

/// How many stretches a part has. Parts are packed and unpacked at the same time, each by a thread,
/// which takes some 100 MiB to pack one. Smaller parts would keep more processors busy but leave
/// more bytes, since zstd does not look from one part into another.
constexpr size_t kPartStretches = 2;

/// A frame of columns, and before it a skippable one that says so.
struct PackedPart {
  std::string frames;
  uint64_t log_bytes = 0;
};

size_t part_bytes(std::span<const uint8_t> log, size_t begin) {
  size_t bytes = 0;
  for (size_t i = 0; i < kPartStretches; ++i) bytes += stretch_bytes(log, begin + bytes);
  return bytes;
}

PackedPart pack_part(std::span<const uint8_t> log, int level) {
  std::string told(kColumnsFollow);
  const uint64_t size = log.size();
  told.append(reinterpret_cast<const char*>(&size), sizeof size);
  std::ostringstream out;
  write_skippable(told, out);
  ZstdPacker packer(out, level, 0);
  for (size_t done = 0; done < log.size();) {
    const auto stretch = log.subspan(done, stretch_bytes(log, done));
    const ColumnBlock block{split_columns(stretch), stretch.size()};
    check_block(block, stretch);
    packer.add(block.bytes, false);
    done += stretch.size();
  }
  packer.add({}, true);
  return {std::move(out).str(), log.size()};
}

/// Returns how many bytes it has written.
uint64_t pack_columns(std::span<const uint8_t> log, std::ostream& out, const Progress& progress,
                      const Packing& packing) {
  const auto at_once = static_cast<size_t>(std::max(packing.threads, 1));
  std::deque<std::future<PackedPart>> packing_now;
  uint64_t packed = 0;
  for (size_t begun = 0, done = 0; done < log.size() && out;) {
    while (begun < log.size() && packing_now.size() < at_once) {
      const auto part = log.subspan(begun, part_bytes(log, begun));
      begun += part.size();
      packing_now.push_back(std::async(pack_part, part, packing.level));
    }
    const PackedPart part = packing_now.front().get();
    packing_now.pop_front();
    out << part.frames;
    packed += part.frames.size();
    done += part.log_bytes;
    if (progress) progress(done, log.size());
  }
  return packed;
}

uint64_t pack_bundle(std::span<const uint8_t> log, std::string_view symbols, std::ostream& out,
                     const Progress& progress, const Packing& packing) {
  const uint64_t packed = pack_frame(log, out, progress, packing);
  if (symbols.empty()) return packed;
  write_skippable(kSymbolsFollow, out);
  return packed + pack_frame({reinterpret_cast<const uint8_t*>(symbols.data()), symbols.size()},
                             out, {}, packing);
}

}  // namespace

void write_packed(std::span<const uint8_t> log, std::string_view symbols, std::ostream& out,
                  const Progress& progress, const Packing& packing) {
  if (packing.in_place)
    write_skippable({GPUPEAK_PACKED_TEXT, sizeof gpupeak_packed_mark::text}, out);
  const uint64_t packed = packing.in_place ? pack_columns(log, out, progress, packing)
                                           : pack_bundle(log, symbols, out, progress, packing);
  if (out && log.size() > most_read_bytes(packed))
    throw TooUniform(fmt::format("it is too uniform: {} would be {}, and no verb would read it",
                                 size_text(log.size()), size_text(packed)));
}

}  // namespace gpupeak::collector
