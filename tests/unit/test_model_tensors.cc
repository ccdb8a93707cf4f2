#include <filesystem>
#include <fstream>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <string>

#include "catch.h"
#include "collector/log/log_reader.h"
#include "collector/log/onnx_runtime.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// A tensor of so many floats, used by node `n_NAME` of type Conv.
void add(protozero::pbf_writer& graph, const std::string& name, int64_t floats) {
  std::string tensor, node;
  protozero::pbf_writer t(tensor), n(node);
  t.add_int64(1, floats);
  t.add_int32(2, 1);
  t.add_string(8, name);
  n.add_string(1, name);
  n.add_string(3, "n_" + name);
  n.add_string(4, "Conv");
  graph.add_message(5, tensor);
  graph.add_message(1, node);
}

std::string model() {
  std::string graph, all;
  protozero::pbf_writer g(graph), m(all);
  add(g, "w1", 1000);
  add(g, "w2", 500);
  add(g, "w3", 500);
  m.add_message(7, graph);
  return all;
}

/// How Python's package makes a session: no fact names its model, but an argument may.
struct OfPython {
  std::string function = "InferenceSession._create_inference_session";
  std::string file = "/site-packages/onnxruntime/capi/onnxruntime_inference_collection.py";
  unsigned models = 1;  ///< among the arguments
};

/// A session that asks for these bytes from one place, then a run that may ask from there, too.
std::vector<std::string> names(const std::vector<uint64_t>& asked, bool again = false,
                               const std::optional<OfPython>& python = {}) {
  TemporaryFile file;
  const std::string onnx = file.path() + ".onnx";
  std::ofstream(onnx) << model();
  LogBuilder log;
  uint32_t caller = 0;
  if (python) {
    log.fact("arg", "python3");
    for (unsigned i = 0; i < python->models; ++i)
      log.fact("arg", i == 0 ? onnx : "/other" + std::to_string(i) + ".onnx");
    log.python_frame(log.string(python->function), log.string(python->file), 12);
    caller = log.node(0, GPUPEAK_PYTHON_IP + 1);
  } else {
    log.fact("ort.session.1", onnx);
  }
  const uint32_t create = log.string("create_session"), stack = log.node(caller, 0x401000);
  uint64_t time = 1, at = 1 << 20;
  const auto give = [&](uint64_t bytes) {
    log.event(0, ++time, GPUPEAK_REC_ARENA_ALLOC,
              Fields()
                  .u(1)
                  .u(at += 1 << 16)
                  .u((bytes + 255) / 256 * 256)
                  .u(0)
                  .u(stack)
                  .u(0)
                  .u(0)
                  .u(bytes));
  };
  if (!python)
    log.event(0, time, GPUPEAK_REC_PHASE_PUSH,
              Fields().u(0).u(GPUPEAK_PHASE_ORT).u(create).u(1).u(0).s(""));
  for (const uint64_t bytes : asked) give(bytes);
  if (!python) log.event(0, ++time, GPUPEAK_REC_PHASE_POP, Fields().u(0).u(GPUPEAK_PHASE_ORT).u(1));
  if (again) give(2000);
  const LogReader reader(log.save(file.path()));
  std::vector<std::string> found;
  for (const uint64_t bytes : asked) {
    ArenaAllocEvent block{};
    block.bytes = (bytes + 255) / 256 * 256;
    block.asked = bytes;
    const uint32_t named = reader.model_tensors().stack_of(block, stack);
    const ModelFrame* frame = reader.definitions().model_frame(reader.definitions().nodes()[named]);
    found.push_back(frame != nullptr ? frame->function : "");
  }
  std::filesystem::remove(onnx);
  return found;
}

}  // namespace

TEST_CASE(
    "model tensors: a block of a size that one tensor has is that tensor, of several one of "
    "these") {
  CHECK(names({4000, 2000}) ==
        std::vector<std::string>{"initializer w1 of Conv n_w1", "initializer w2 or w3 of Conv"});
}

TEST_CASE(
    "model tensors: no names where a place asks for other things, for little of the model, or in a "
    "run") {
  const std::vector<std::string> none{""};
  CHECK(names({2000}) == none);
  CHECK(names({4000, 9000, 9001}) == std::vector<std::string>(3));
  CHECK(names({4000}, true) == none);
  CHECK(names({4000, 4000}) == std::vector<std::string>(2));
}

TEST_CASE("model tensors: a session of Python's package has the model of the program's arguments") {
  const std::vector<std::string> both{"initializer w1 of Conv n_w1",
                                      "initializer w2 or w3 of Conv"};
  const std::vector<std::string> none(2);
  CHECK(names({4000, 2000}, false, OfPython{}) == both);
  CHECK(names({4000, 9000}, false, OfPython{}) == none);
  CHECK(names({4000, 2000}, false, OfPython{.models = 0}) == none);
  CHECK(names({4000, 2000}, false, OfPython{.models = 2}) == none);
  CHECK(names({4000, 2000}, false, OfPython{.function = "run"}) == none);
  CHECK(names({4000, 2000}, false, OfPython{.file = "/home/me/sessions.py"}) == none);
}

TEST_CASE("model tensors: of a model that is cut off nothing is known") {
  const std::string whole = model();
  CHECK(read_model_tensors(whole).size() == 3);
  CHECK(read_model_tensors(whole.substr(0, whole.size() - 3)).empty());
}
