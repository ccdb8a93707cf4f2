// Reads the constant tensors of an ONNX model: what each is called, how large it is, and which node
// uses it. model_tensors.h compares them with the blocks that a session has asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

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
