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

struct LogColumnsState;

/// Blocks of columns, made one after the other of a log's stretches.
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
  std::unique_ptr<LogColumnsState> state_;
};

/// Takes blocks in pieces of any size and gives the log. Throws LogError, with `name`, if they are
/// none.
class ColumnJoiner {
 public:
  using Sink = std::function<void(const char* bytes, size_t size)>;
  explicit ColumnJoiner(std::string name);
  ~ColumnJoiner();
  void take(const char* bytes, size_t size, const Sink& sink);
  /// Throws if a block is incomplete.
  void finish() const;

 private:
  void join(std::span<const uint8_t> block, const Sink& sink);

  std::string name_;
  std::vector<uint8_t> pending_;
  std::unique_ptr<LogColumnsState> state_;
};

}  // namespace gpupeak::collector
