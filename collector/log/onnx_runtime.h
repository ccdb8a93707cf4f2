// What is known of ONNX Runtime's own work: which tensors its blocks are, what lies in the one piece
// that a run asks for, and which node ran when. LogReader and Replay ask for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "collector/log/event.h"
#include "collector/text/lists.h"

namespace gpupeak::collector {

class Definitions;
class LogReader;

// Finds which blocks of an arena are which tensors of the model that a session loads. A stripped
// ONNX Runtime asks for all of them from one place; only their sizes tell them apart.
//
//   ARENA_ALLOC 411041792 bytes, within create_session of vgg19.onnx, stack 87
//   vgg19.onnx: fc6_w is 4096 × 25088 floats, and no other tensor has 411041792 bytes
//     → "initializer fc6_w of Gemm n38", called from stack 87
//
// A name is right or it is not given. A block that fits several tensors of equal size has a name
// that says so. A place in the code counts only if three quarters of what it asks for have sizes of
// tensors, and if that is at least half of the model. A size of which there are more blocks than
// tensors gets no name. LogReader makes the names, Replay asks for them.

struct AskedBlock {
  uint32_t stack = 0;
  uint64_t bytes = 0, asked = 0;
  auto operator<=>(const AskedBlock&) const = default;
};

class ModelTensors {
 public:
  ModelTensors() = default;
  /// Adds the names that it finds to `definitions`, the log's own.
  ModelTensors(const LogReader& log, Definitions& definitions);

  /// The block's stack with the tensor's name in front, or `stack`.
  uint32_t stack_of(const ArenaAllocEvent& block, uint32_t stack) const {
    return nodes_.empty() ? stack : value_or(nodes_, {stack, block.bytes, block.asked}, stack);
  }

 private:
  std::map<AskedBlock, uint32_t> nodes_;
};

// Reads the constant tensors of an ONNX model: what each is called, how large it is, and which node
// uses it. ModelTensors compares them with the blocks that a session has asked for.

/// An initializer, the value of a Constant node, or what a ConstantOfShape node with a constant
/// shape makes. A session computes the last once, when it loads the model.
struct ModelTensor {
  std::string name;
  uint64_t bytes = 0;
  std::string operation;  ///< "Conv": the type of the first node that uses it; empty: none does
  std::string node;       ///< the name of that node; may be empty
};

/// `model` is the content of a .onnx file. The result has the tensors of inner graphs, too. It is
/// empty if the model is not whole: a tensor that was missed could make another one look like the
/// only one of its size.
std::vector<ModelTensor> read_model_tensors(std::string_view model);

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
// The same rule over the same requests gives the same size, to the byte. ActivationPlans makes
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

// Reads the profiles that ONNX Runtime writes itself: which node ran when, and in which thread. The
// preload notes in the log where a session's profile lies and when its clock began (facts
// ort.profile). Replay makes phases of the nodes. docs/phases.md says how the clocks are joined.

/// One run of one node.
struct NodeSpan {
  uint64_t begin_ticks = 0, end_ticks = 0;
  uint32_t tid = 0;
  uint32_t name = 0;  ///< index into NodeProfiles::names
  uint64_t session = 0;
};

struct NodeProfiles {
  std::vector<NodeSpan> spans;        ///< by begin; a span within another one comes behind it
  std::vector<std::string> names;     ///< "conv1 (Conv)"
  std::vector<std::string> problems;  ///< sentences: what is missing, and why
};

/// Reads the profiles of all sessions of the log. What cannot be read becomes a problem, not an
/// error.
NodeProfiles read_ort_profiles(const LogReader& log);

}  // namespace gpupeak::collector
