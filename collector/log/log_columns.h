// A log's bytes in another order, which zstd compresses to half of what it makes of the log itself:
// all tags, all sizes, all stacks, each as a column, and addresses only where AddressModel does not
// guess them. Nothing is lost: what is joined again is the same log, byte by byte, whatever was in
// it. Used by packed_log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gpupeak::collector {

/// Makes blocks of columns of a log's stretches. Each block stands for itself, so that several
/// threads, each with a splitter of its own, may make them.
class ColumnSplitter {
 public:
  ColumnSplitter();
  ~ColumnSplitter();
  /// How much of a log, from `begin` on, is best taken as the next stretch; whole pages, but for
  /// the log's end.
  static size_t stretch(std::span<const uint8_t> log, size_t begin);
  /// Replaces `block`.
  void split(std::span<const uint8_t> stretch, std::vector<uint8_t>& block);

 private:
  struct Columns;
  std::unique_ptr<Columns> columns_;
};

/// One block, and how many of the log's bytes it says that it stands for.
struct ColumnBlock {
  std::vector<uint8_t> bytes;
  uint64_t stretch_bytes = 0;
};

/// Cuts blocks out of pieces of any size. Throws LogError, with `name`, for what cannot be one.
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
  uint64_t column_bytes_ = 0, stretch_bytes_ = 0;  // of the blocks so far
  std::vector<uint8_t> pending_;  // a block, not yet whole; with room for it once its head is there
};

/// Gives the stretch of a block, in pieces. Throws LogError, with `name`, if that is not what the
/// block says.
void join_columns(const ColumnBlock& block, const std::string& name,
                  const std::function<void(const char* bytes, size_t size)>& sink);

}  // namespace gpupeak::collector
