// Tells what lies in the one piece of memory that a run of an ONNX model asks for. The first run of
// a session asks for each activation by itself. ONNX Runtime then plans where each lies in one
// piece, and later runs ask for that piece. The log has both.
//
//   run 1   Conv asks for 12 MiB, MaxPool for 3 MiB, Conv …    replayed: a piece of 24.5 MiB
//   run 2   OrtApis::Run asks for 24.5 MiB                     that piece
//
// A name is right or it is not given. So three things must hold: the piece has the size that the
// replay of the first run gives, to the byte; its place in the code asked for nothing in the first
// run; the later run does not ask again for what is in the piece. LogReader makes the plans, Replay
// asks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "collector/log/event.h"
#include "collector/text/lists.h"

namespace gpupeak::collector {

class Definitions;
class LogReader;

/// A part of a block that an arena gave.
struct BlockPart {
  uint64_t offset = 0;
  uint64_t bytes = 0;  ///< the last part: to the end of the block, however long that is
  /// A frame "planned activation", called by the stack that asked for it in the first run. Bytes
  /// between two activations, and behind the last, have frames that say so, called by the stack
  /// that asked for the piece.
  uint32_t stack = 0;
  bool operator==(const BlockPart&) const = default;
};

class ActivationPlans {
 public:
  ActivationPlans() = default;
  /// Adds the names to `definitions`, the log's own.
  ActivationPlans(const LogReader& log, Definitions& definitions);

  /// All parts of the block, by offset. Empty: the block is no such piece, or its parts are not
  /// known.
  std::span<const BlockPart> parts_of(const ArenaAllocEvent& block) const {
    if (pieces_.empty() || block.asked > block.bytes) return {};
    const auto* const piece = value_in(pieces_, {block.arena, block.stack, block.asked});
    return piece == nullptr ? std::span<const BlockPart>() : *piece;
  }

 private:
  using Piece = std::tuple<uint64_t, uint32_t, uint64_t>;  ///< arena, stack, asked for

  std::map<Piece, std::vector<BlockPart>> pieces_;
};

// ONNX Runtime's own rule for the one piece of memory that a session's runs share out among their
// activations. The first run with some input shapes shows when each activation is asked for and
// given back. The rule puts each into the smallest gap between those that live then, or behind the
// last of them if no gap is large enough.
//
//   allocate(1, 512)   |1111|
//   allocate(2, 512)   |1111|2222|
//   free(1)            |····|2222|
//   allocate(3, 768)   |····|2222|333333|     bytes() is 1,792 from here on, and highest()
//                                             has parts 2 and 3
//
// The same rule over the same requests gives the same size, to the byte. activation_plans.h makes
// these calls with what a log says of the first run.
class MemoryPattern {
 public:
  struct Part {
    uint64_t offset = 0, bytes = 0;
    size_t request = 0;
    bool operator==(const Part&) const = default;
  };

  void allocate(size_t request, uint64_t asked_bytes);
  void free(size_t request);

  /// The size of the piece.
  uint64_t bytes() const { return bytes_; }
  /// The parts, by offset, at the moment at which the piece became as large as it is.
  const std::vector<Part>& highest() const { return highest_; }
  /// How many parts it has looked at: what the work costs.
  uint64_t looks() const { return looks_; }

 private:
  std::vector<Part> live_;  // in the order in which the rule goes through them
  std::vector<Part> highest_;
  uint64_t bytes_ = 0, looks_ = 0;
};

}  // namespace gpupeak::collector
