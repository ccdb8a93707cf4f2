#include "collector/log/onnx_model.h"

#include <cstring>
#include <map>
#include <optional>
#include <protozero/pbf_reader.hpp>

namespace gpupeak::collector {
namespace {

// Fields of onnx.proto.
constexpr uint32_t kModelGraph = 7;
constexpr uint32_t kGraphNode = 1, kGraphInitializer = 5, kGraphSparseInitializer = 15;
constexpr uint32_t kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOperation = 4,
                   kNodeAttribute = 5;
constexpr uint32_t kAttributeTensor = 5, kAttributeGraph = 6, kAttributeGraphs = 11;
constexpr uint32_t kTensorDims = 1, kTensorType = 2, kTensorInt64 = 7, kTensorName = 8,
                   kTensorRaw = 9;
constexpr int32_t kFloat = 1, kInt64 = 7, kString = 8;
constexpr int kDeepest = 64;                              // graphs within graphs
constexpr uint64_t kMostTensorBytes = UINT64_C(1) << 48;  // bytes of a tensor

/// Bits of a value of each TensorProto.DataType; 0: not known, or of no fixed size.
uint64_t bits_of_type(int32_t type) {
  constexpr uint8_t kBits[] = {0,  32, 8,  8,   16, 16, 32, 64, 0, 8, 16, 64,
                               32, 64, 64, 128, 16, 8,  8,  8,  8, 4, 4,  4};
  return type >= 0 && static_cast<size_t>(type) < sizeof kBits ? kBits[type] : 0;
}

struct ConstantTensor {
  std::string name;
  std::vector<int64_t> dims;
  int32_t type = 0;
  std::vector<int64_t> values;  // of a vector of int64
};

struct NotUnderstood : protozero::exception {
  const char* what() const noexcept override { return "a model that is not understood"; }
};

/// nullopt for strings, which are not in the arena.
std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& dims, int32_t type) {
  uint64_t values = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || static_cast<uint64_t>(dim) > kMostTensorBytes) throw NotUnderstood();
    values *= static_cast<uint64_t>(dim);
    if (values > kMostTensorBytes) throw NotUnderstood();
  }
  if (type == kString) return std::nullopt;
  const uint64_t bits = bits_of_type(type);
  if (bits == 0) throw NotUnderstood();
  return (values * bits + 7) / 8;
}

void read_numbers(protozero::pbf_reader& fields, std::vector<int64_t>& to) {
  if (fields.wire_type() == protozero::pbf_wire_type::varint) {
    to.push_back(fields.get_int64());
    return;
  }
  for (const int64_t value : fields.get_packed_int64()) to.push_back(value);
}

ConstantTensor read_tensor(protozero::pbf_reader fields) {
  constexpr size_t kMostRank = 64;
  ConstantTensor tensor;
  std::string_view raw;
  while (fields.next()) {
    switch (fields.tag()) {
      case kTensorDims:
        read_numbers(fields, tensor.dims);
        break;
      case kTensorType:
        tensor.type = fields.get_int32();
        break;
      case kTensorName:
        tensor.name = fields.get_string();
        break;
      case kTensorInt64:
        read_numbers(fields, tensor.values);
        break;
      case kTensorRaw: {
        const protozero::data_view view = fields.get_view();
        raw = {view.data(), view.size()};
        break;
      }
      default:
        fields.skip();
    }
  }
  if (tensor.type == kInt64 && raw.size() <= kMostRank * sizeof(int64_t)) {
    for (size_t at = 0; at + sizeof(int64_t) <= raw.size(); at += sizeof(int64_t)) {
      int64_t value = 0;
      memcpy(&value, raw.data() + at, sizeof value);
      tensor.values.push_back(value);
    }
  }
  return tensor;
}

class ModelReader {
 public:
  std::vector<ModelTensor> read(std::string_view model) {
    protozero::pbf_reader fields(model.data(), model.size());
    while (fields.next()) {
      if (fields.tag() == kModelGraph) {
        read_graph(fields.get_message(), 0);
      } else {
        fields.skip();
      }
    }
    return std::move(found_);
  }

 private:
  struct ModelNode {
    std::string operation, name;
    std::vector<std::string> inputs, outputs;
    std::optional<ConstantTensor> value;  // its attribute that is a tensor
  };

  /// An inner graph may use the same names as an outer one, so each graph has tables of its own.
  void read_graph(protozero::pbf_reader fields, int depth) {
    if (depth > kDeepest) throw NotUnderstood();
    std::vector<ModelNode> nodes;
    std::map<std::string, ConstantTensor> constants;
    std::vector<std::pair<std::string, std::optional<uint64_t>>> sizes;
    while (fields.next()) {
      if (fields.tag() == kGraphNode) {
        nodes.push_back(read_node(fields.get_message(), depth));
      } else if (fields.tag() == kGraphInitializer) {
        ConstantTensor tensor = read_tensor(fields.get_message());
        sizes.emplace_back(tensor.name, tensor_bytes(tensor.dims, tensor.type));
        constants.insert_or_assign(tensor.name, std::move(tensor));
      } else if (fields.tag() == kGraphSparseInitializer) {
        throw NotUnderstood();
      } else {
        fields.skip();
      }
    }
    for (const ModelNode& node : nodes) {
      if (node.outputs.size() != 1) continue;
      if (node.operation == "Constant" && node.value)
        sizes.emplace_back(node.outputs[0], tensor_bytes(node.value->dims, node.value->type));
      if (node.operation == "ConstantOfShape" && node.inputs.size() == 1) {
        const auto shape = constants.find(node.inputs[0]);
        if (shape != constants.end() && shape->second.type == kInt64)
          sizes.emplace_back(node.outputs[0], tensor_bytes(shape->second.values,
                                                           node.value ? node.value->type : kFloat));
      }
    }
    std::map<std::string_view, const ModelNode*> users;
    for (const ModelNode& node : nodes) {
      for (const std::string& input : node.inputs) users.try_emplace(input, &node);
    }
    for (const auto& [name, bytes] : sizes) {
      if (!bytes) continue;
      const auto user = users.find(name);
      const ModelNode* node = user != users.end() ? user->second : nullptr;
      found_.push_back({name, *bytes, node != nullptr ? node->operation : "",
                        node != nullptr ? node->name : ""});
    }
  }

  ModelNode read_node(protozero::pbf_reader fields, int depth) {
    ModelNode node;
    while (fields.next()) {
      switch (fields.tag()) {
        case kNodeInput:
          node.inputs.push_back(fields.get_string());
          break;
        case kNodeOutput:
          node.outputs.push_back(fields.get_string());
          break;
        case kNodeName:
          node.name = fields.get_string();
          break;
        case kNodeOperation:
          node.operation = fields.get_string();
          break;
        case kNodeAttribute:
          read_attribute(fields.get_message(), depth, node);
          break;
        default:
          fields.skip();
      }
    }
    return node;
  }

  void read_attribute(protozero::pbf_reader fields, int depth, ModelNode& node) {
    while (fields.next()) {
      if (fields.tag() == kAttributeTensor) {
        node.value = read_tensor(fields.get_message());
      } else if (fields.tag() == kAttributeGraph || fields.tag() == kAttributeGraphs) {
        read_graph(fields.get_message(), depth + 1);
      } else {
        fields.skip();
      }
    }
  }

  std::vector<ModelTensor> found_;
};

}  // namespace

std::vector<ModelTensor> read_model_tensors(std::string_view model) {
  try {
    return ModelReader().read(model);
  } catch (const protozero::exception&) {
    return {};
  }
}

}  // namespace gpupeak::collector
