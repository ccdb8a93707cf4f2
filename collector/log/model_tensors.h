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
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "collector/log/event.h"
#include "collector/text/lists.h"

namespace gpupeak::collector {

class Definitions;
class LogReader;

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
// uses it. model_tensors.h compares them with the blocks that a session has asked for.

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

}  // namespace gpupeak::collector
