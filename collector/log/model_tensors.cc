#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <protozero/pbf_reader.hpp>
#include <set>

#include "collector/log/log_reader.h"
#include "collector/log/onnx_runtime.h"
#include "collector/log/slot_decoder.h"
#include "collector/text/error.h"
#include "collector/text/function_names.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

using Tensors = std::vector<ModelTensor>;
using SessionId = uint64_t;

constexpr std::string_view kSessionFact = "ort.session.", kCreatePhase = "create_session";
/// Sessions of Python's package have this id: the package creates them in a function of its own,
/// and the log has no model's name for them.
constexpr SessionId kPythonSession = UINT64_MAX;
constexpr std::string_view kPythonFunction = "_create_inference_session",
                           kPythonFile = "onnxruntime_inference_collection.py";
constexpr uint64_t kMostModelBytes = UINT64_C(8) << 30;
constexpr size_t kMostModels = 64;

/// The path of a model that the preload noted. Nothing but a .onnx file is opened, whatever a log
/// says.
std::optional<std::string> model_file(const Definitions& definitions, std::string_view fact) {
  if (!fact.ends_with(".onnx")) return std::nullopt;
  if (fact.starts_with('/')) return std::string(fact);
  const std::string_view folder = definitions.fact("cwd");
  if (!folder.starts_with('/')) return std::nullopt;
  return fmt::format("{}/{}", folder, fact);
}

/// Most of the file is values, which are not read.
Tensors read_tensors_of(const std::string& path) {
  try {
    const MappedFile file(path, kMostModelBytes);
    Tensors tensors =
        read_model_tensors({reinterpret_cast<const char*>(file.data()), file.bytes()});
    file.require_whole();
    return tensors;
  } catch (const LogError&) {
    return {};
  }
}

bool makes_python_session(const Definitions& definitions, uint32_t stack) {
  const auto& nodes = definitions.nodes();
  for (uint32_t at = stack; at != 0; at = nodes[at].parent) {
    const PythonFrame* frame = definitions.python_frame(nodes[at]);
    if (frame != nullptr && definitions.string(frame->function).ends_with(kPythonFunction) &&
        file_name(definitions.string(frame->file)) == kPythonFile)
      return true;
  }
  return false;
}

/// The only model among the program's arguments. Empty: there is none, or several.
std::string model_of_arguments(const Definitions& definitions) {
  std::set<std::string> models;
  for (const auto& [key, value] : definitions.facts()) {
    if (key == "arg" && value.ends_with(".onnx")) models.insert(value);
  }
  return models.size() == 1 ? *models.begin() : "";
}

/// Whether an arena would give such a block for a tensor of so many bytes. The tensor's size may
/// have been rounded up to 256 before it was asked for, as the arena does itself. The arena gives a
/// larger piece whole where the rest is smaller than the request and than 128 MiB.
bool fits(const AskedBlock& block, uint64_t bytes) {
  constexpr uint64_t kStep = 256, kMostLeft = UINT64_C(128) << 20;
  const auto round = [](uint64_t value) { return (value + kStep - 1) / kStep * kStep; };
  if (bytes == 0) return false;
  const uint64_t rounded = round(bytes);
  const bool is_padding = rounded - bytes < bytes;
  if (block.asked != 0) return block.asked == bytes || (block.asked == rounded && is_padding);
  return block.bytes >= rounded && block.bytes - rounded < std::min(rounded, kMostLeft);
}

/// What each place has asked for while a session was created.
class SessionBlocks {
 public:
  using OfPlace = std::map<AskedBlock, uint64_t>;  ///< how many blocks of each kind
  struct Place {
    OfPlace blocks;
    std::set<SessionId> sessions;  ///< 0: outside of any
    bool of_python = false;        ///< asks for sessions of Python's package
  };

  explicit SessionBlocks(const LogReader& log) : definitions_(log.definitions()) {
    for_each_slot_event(
        log, [this] { session_ = 0; }, [this](const Event& event) { add(event); });
  }
  const std::map<uint32_t, Place>& places() const { return places_; }

 private:
  void add(const Event& event) {
    if (event.tag == GPUPEAK_REC_PHASE_PUSH) {
      const auto phase = parse_phase_push(event);
      if (phase.malformed || phase.source != GPUPEAK_PHASE_ORT) return;
      session_ = definitions_.string(phase.name) == kCreatePhase ? phase.instance : 0;
    } else if (event.tag == GPUPEAK_REC_PHASE_POP) {
      const auto phase = parse_phase_pop(event);
      if (!phase.malformed && phase.source == GPUPEAK_PHASE_ORT) session_ = 0;
    } else if (event.tag == GPUPEAK_REC_ARENA_ALLOC) {
      const auto alloc = parse_arena_alloc(event);
      if (alloc.malformed || alloc.stack == 0) return;
      if (alloc.stack >= definitions_.logged_node_count()) return;
      const auto [known, added] = places_.try_emplace(alloc.stack);
      Place& place = known->second;
      if (added) place.of_python = makes_python_session(definitions_, alloc.stack);
      place.sessions.insert(session_ == 0 && place.of_python ? kPythonSession : session_);
      ++place.blocks[{alloc.stack, alloc.bytes, alloc.asked}];
    }
  }

  const Definitions& definitions_;
  SessionId session_ = 0;
  std::map<uint32_t, Place> places_;
};

/// A model's file and its tensors. A place that created two sessions of the model has it twice.
struct LoadedModel {
  std::string file;
  Tensors tensors;
};
using Candidates = std::vector<const ModelTensor*>;

Candidates tensors_for(const AskedBlock& block, const std::vector<const LoadedModel*>& models) {
  Candidates found;
  for (const LoadedModel* model : models) {
    for (const ModelTensor& tensor : model->tensors) {
      if (fits(block, tensor.bytes)) found.push_back(&tensor);
    }
  }
  return found;
}

std::string title_of(const Candidates& all) {
  Candidates each = all;  // two sessions of one model have the same tensors
  std::ranges::sort(each);
  each.erase(std::unique(each.begin(), each.end()), each.end());
  const ModelTensor &first = *each.front(), &last = *each.back();
  const bool one_operation = std::ranges::all_of(
      each, [&](const ModelTensor* tensor) { return tensor->operation == first.operation; });
  std::string title = "initializer " + first.name;
  if (each.size() == 2) title.append(kOr).append(last.name);
  if (each.size() > 2) title += fmt::format(" … {}, one of {}", last.name, each.size());
  if (one_operation && !first.operation.empty()) title += " of " + first.operation;
  if (each.size() == 1 && !first.node.empty()) title += " " + first.node;
  return title;
}

/// The least that the models' tensors can take: each size counts once, since a session may have
/// made one tensor of all that are equal.
uint64_t bytes_at_least(const std::vector<const LoadedModel*>& models) {
  std::set<uint64_t> sizes;
  for (const LoadedModel* model : models) {
    for (const ModelTensor& tensor : model->tensors) sizes.insert(tensor.bytes);
  }
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
}

/// The tensors that each block can be. Empty: the place asks for something else, or for too little
/// of the models to be sure.
std::map<AskedBlock, Candidates> match(const SessionBlocks::OfPlace& blocks,
                                       const std::vector<const LoadedModel*>& models) {
  constexpr uint64_t kOf = 4, kAtLeast = 3;  // three of four bytes, and three of four blocks
  std::map<AskedBlock, Candidates> matched;
  uint64_t bytes = 0, matched_bytes = 0, count = 0, matched_count = 0;
  for (const auto& [block, times] : blocks) {
    bytes += block.bytes * times;
    count += times;
    Candidates candidates = tensors_for(block, models);
    if (candidates.size() < times) continue;
    matched_bytes += block.bytes * times;
    matched_count += times;
    matched.emplace(block, std::move(candidates));
  }
  const bool is_theirs =
      matched_bytes >= bytes / kOf * kAtLeast && matched_count * kOf >= count * kAtLeast;
  if (!is_theirs || matched_bytes < bytes_at_least(models) / 2) return {};
  return matched;
}

// Fields of onnx.proto.
constexpr uint32_t kModelGraph = 7;
constexpr uint32_t kGraphNode = 1, kGraphInitializer = 5, kGraphSparseInitializer = 15;
constexpr uint32_t kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOperation = 4,
                   kNodeAttribute = 5;
constexpr uint32_t kAttributeTensor = 5, kAttributeGraph = 6, kAttributeGraphs = 11;
constexpr uint32_t kTensorDims = 1, kTensorType = 2, kTensorInt64 = 7, kTensorName = 8,
                   kTensorRaw = 9;
constexpr int32_t kFloat = 1, kInt64 = 7, kString = 8;
constexpr int kDeepestGraph = 64;                         // graphs within graphs
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
    if (depth > kDeepestGraph) throw NotUnderstood();
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

ModelTensors::ModelTensors(const LogReader& log, Definitions& definitions) {
  std::map<SessionId, std::string> file_of;
  std::map<std::string, LoadedModel> models;  // by what the program called them
  const auto load = [&](SessionId session, std::string_view name) {
    const std::optional<std::string> file = model_file(definitions, name);
    if (session == 0 || !file || models.size() >= kMostModels) return;
    file_of[session] = *file;
    const auto [model, added] = models.try_emplace(*file);
    if (!added) return;
    model->second.file = *file;
    for (const std::string& place : {*file, path_beside(log.path(), *file)}) {
      model->second.tensors = read_tensors_of(place);
      if (!model->second.tensors.empty()) break;
    }
  };
  for (const auto& [key, value] : definitions.facts()) {
    if (!key.starts_with(kSessionFact)) continue;
    SessionId session = 0;
    std::from_chars(key.data() + kSessionFact.size(), key.data() + key.size(), session);
    load(session, value);
  }
  const auto& strings = definitions.strings();
  if (std::ranges::any_of(strings,
                          [](std::string_view text) { return text.ends_with(kPythonFunction); }))
    load(kPythonSession, model_of_arguments(definitions));
  const bool any =
      std::ranges::any_of(models, [](const auto& model) { return !model.second.tensors.empty(); });
  if (!any) return;
  const SessionBlocks blocks(log);
  for (const auto& [stack, place] : blocks.places()) {
    std::vector<const LoadedModel*> served;
    bool knows_all = true;
    for (const SessionId session : place.sessions) {
      const auto file = file_of.find(session);
      const LoadedModel* model = file != file_of.end() ? &models.at(file->second) : nullptr;
      knows_all &= model != nullptr && !model->tensors.empty();
      if (model != nullptr) served.push_back(model);
    }
    if (!knows_all) continue;
    std::map<std::string, uint32_t> named;  // of this place: by title
    for (const auto& [block, candidates] : match(place.blocks, served)) {
      const std::string title = title_of(candidates);
      const auto [node, added] = named.try_emplace(title, 0);
      if (added) node->second = definitions.add_model_frame(stack, {title, served.front()->file});
      nodes_.emplace(block, node->second);
    }
  }
}

std::vector<ModelTensor> read_model_tensors(std::string_view model) {
  try {
    return ModelReader().read(model);
  } catch (const protozero::exception&) {
    return {};
  }
}

}  // namespace gpupeak::collector
