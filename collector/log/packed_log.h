// Reads logs that gpupeak or the zstd command compressed, and bundles: a compressed log with its
// symbols behind it. LogReader unpacks them; write_packed() makes them.
//
// A bundle is an ordinary zstd file: the log's frame, a skippable frame that says what follows, and
// the frame of the symbols. A tool that unpacks it without knowing this gets the log with some text
// at its end, which is still a valid log.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "collector/log/log_reader.h"

namespace gpupeak::collector {

/// Whether a file with these first bytes is a package.
bool is_packed(std::span<const uint8_t> file);

/// A log taken out of its package.
struct Unpacked {
  int fd = -1;          ///< of a file without a name; the caller closes it
  std::string symbols;  ///< of a bundle; else empty
};

/// How much a package may hold. kToRead: what a verb may read. kAll: what a log
/// can have shrunk to, for callers that only want the log itself.
enum class Extent { kToRead, kAll };

/// Unpacks `file`, whose path is `name`. Throws LogError if the package is damaged or cut off, if
/// it holds more than `extent`, or if there is no room for its content.
Unpacked unpack(std::span<const uint8_t> file, const std::string& name, Extent extent);

/// The log's first bytes; fewer if the log is shorter. Unpacks no more than a block beyond them.
/// Throws LogError as unpack() does.
std::vector<uint8_t> unpack_front(std::span<const uint8_t> file, const std::string& name,
                                  size_t bytes);

// The frames of packed logs, and what the skippable ones say. docs/log-format.md lists them all.

inline constexpr std::string_view kSymbolsFollow = "gpupeak.symbols/1";
inline constexpr std::string_view kAnyColumnsFollow = "gpupeak.columns/";
/// Followed by how many bytes of the log the columns stand for.
inline constexpr std::string_view kColumnsFollow = "gpupeak.columns/2";
inline constexpr size_t kSkippableHeader = 8;

/// How much log a package may hold if verbs are to read it: of a package of a megabyte, as much as
/// every verb reads in seconds, whatever is in it (docs/reliability.md). Logs shrink to a tenth,
/// but a loop of the same two calls shrinks to next to nothing. A log that shrinks further than
/// that is not packed.
inline constexpr uint64_t kAlwaysReadBytes = 8 << 20, kReadRatio = 32;

constexpr uint64_t most_read_bytes(uint64_t package_bytes) {
  return kAlwaysReadBytes + kReadRatio * package_bytes;
}

// Puts a log's bytes into another order, of which zstd makes half of what it makes of the log
// itself. All tags become one column, all sizes another, all stacks another, and addresses are
// written only where a model does not guess them. Nothing is lost: joining gives the same log, byte
// by byte, whatever was in it. Used by packed_log.

/// How many bytes from `begin` on are the next stretch: whole pages, except at the log's end.
size_t stretch_bytes(std::span<const uint8_t> log, size_t begin);
/// Makes a block of columns of a stretch of a log. A block needs no other block, so that several
/// threads can make them.
std::vector<uint8_t> split_columns(std::span<const uint8_t> stretch);

/// One block, and how many bytes of the log it says that it stands for.
struct ColumnBlock {
  std::vector<uint8_t> bytes;
  uint64_t stretch_bytes = 0;
};

/// Puts a stream of bytes, which comes in pieces of any size, together to blocks. Throws LogError,
/// with `name`, where it can be no block.
class ColumnCutter {
 public:
  using Sink = std::function<void(ColumnBlock block)>;
  explicit ColumnCutter(std::string name);
  void take(const char* bytes, size_t size, const Sink& sink);
  /// Throws if a block is incomplete.
  void finish() const;

 private:
  uint32_t head_word(size_t i) const;
  size_t block_bytes() const;
  void count_block();

  std::string name_;
  uint64_t column_bytes_ = 0, stretch_bytes_ = 0;  // of all blocks so far
  // The block that is not whole yet. It has room for all of it once its head is there.
  std::vector<uint8_t> pending_;
};

/// Calls `sink` with the stretch that the block stands for, in pieces. Throws LogError, with
/// `name`, if the columns do not give as many bytes as the block says.
void join_columns(const ColumnBlock& block, const std::string& name,
                  const std::function<void(const char* bytes, size_t size)>& sink);

// Compresses logs to the packages that are described above. `gpupeak bundle` and
// `run` do it.

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
  /// columns (split_columns()) in parts, each made by a thread, and no symbols.
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
