// Which blocks of an arena are which tensors of the model that a session has loaded. A stripped
// ONNX Runtime asks for all of them from one place; what tells them apart is their size.
//
//   ARENA_ALLOC 411041792 bytes, within create_session of vgg19.onnx, stack 87
//   vgg19.onnx: fc6_w is 4096 × 25088 floats, and no other tensor has 411041792 bytes
//     → "initializer fc6_w of Gemm n38", called from stack 87
//
// A name is right or it is not given. Of tensors of equal size a block is one of these, and its
// name says so. A place in the code counts only if most of what it has asked for has the size of a
// tensor, and if that is most of the model; of no size may there be more blocks than the model has
// tensors. LogReader makes it, Replay asks it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "collector/log/event.h"

namespace gpupeak::collector {

class Definitions;
class LogReader;

class ModelTensors {
 public:
  ModelTensors() = default;
  /// Adds the names that it finds to `definitions`, the log's own.
  ModelTensors(const LogReader& log, Definitions& definitions);

  /// The block's stack with the tensor's name in front, or `stack`.
  uint32_t stack_of(const ArenaAllocEvent& block, uint32_t stack) const {
    if (nodes_.empty()) return stack;
    const auto node = nodes_.find({stack, block.bytes, block.asked});
    return node == nodes_.end() ? stack : node->second;
  }
  /// Files that were looked for: with others the names would be others.
  const std::vector<std::string>& files() const { return files_; }

 private:
  using Block = std::tuple<uint32_t, uint64_t, uint64_t>;  ///< stack, bytes, asked for

  std::map<Block, uint32_t> nodes_;
  std::vector<std::string> files_;
};

}  // namespace gpupeak::collector
