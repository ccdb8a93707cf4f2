// What is in the one piece of memory that a run of an ONNX model asks for, for all its activations.
// In the first run of a session each is asked for by itself; ONNX Runtime then plans where each
// lies in one piece, and later runs ask for that piece. The log has both.
//
//   run 1   Conv asks for 12 MiB, MaxPool for 3 MiB, Conv …    replayed: a piece of 24.5 MiB
//   run 2   OrtApis::Run asks for 24.5 MiB                     that piece
//
// A name is right or it is not given: the piece must be as large as the replay says, to the byte;
// its place in the code has asked for nothing in the first run; and what is in it the later run
// does not ask for again. LogReader makes it, Replay asks it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "collector/log/event.h"

namespace gpupeak::collector {

class Definitions;
class LogReader;

/// A part of a block that an arena gave.
struct BlockPart {
  uint64_t offset = 0;
  uint64_t bytes = 0;  ///< the last one goes as far as the block does
  /// "planned activation", called by who asked for it in the first run; between two of these, and
  /// behind them, names that say so, called by who asked for the piece.
  uint32_t stack = 0;
  bool operator==(const BlockPart&) const = default;
};

class ActivationPlans {
 public:
  ActivationPlans() = default;
  /// Adds the names to `definitions`, the log's own.
  ActivationPlans(const LogReader& log, Definitions& definitions);

  /// All of the block, by offset; empty: it is no such piece, or one of which this is not known.
  std::span<const BlockPart> parts_of(const ArenaAllocEvent& block) const {
    if (pieces_.empty() || block.asked > block.bytes) return {};
    const auto piece = pieces_.find({block.arena, block.stack, block.asked});
    if (piece == pieces_.end()) return {};
    return piece->second;
  }

 private:
  using Piece = std::tuple<uint64_t, uint32_t, uint64_t>;  ///< arena, stack, asked for

  std::map<Piece, std::vector<BlockPart>> pieces_;
};

}  // namespace gpupeak::collector
