// Puts a log's bytes into another order, of which zstd makes half of what it makes of the log
// itself. All tags become one column, all sizes another, all stacks another, and addresses are
// written only where a model does not guess them. Nothing is lost: joining gives the same log, byte
// by byte, whatever was in it. Used by packed_log and pack_log.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gpupeak::collector {

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

}  // namespace gpupeak::collector
