// Rules on stacks: how they are read, what they match, and the phases and tags they make.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/rules/rule_book.h"
#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/views/views.h"
#include "inline_sample.h"
#include "log_builder.h"
#include "this_program.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// main (libapp.so) calls the library, which calls libinner.so.
struct Stacks {
  LogBuilder log;
  uint32_t main, load, inner, direct;

  Stacks() {
    log.module("/opt/libapp.so", "", 0x100000, 0x100000, 0x10000);
    log.module("/opt/libload.so.1", "", 0x200000, 0x200000, 0x10000);
    log.module("/opt/libinner.so", "", 0x300000, 0x300000, 0x10000);
    main = log.node(0, 0x100100);
    load = log.node(main, 0x200100);
    inner = log.node(load, 0x300100);
    direct = log.node(main, 0x300200);
  }
  void alloc(uint32_t slot, uint64_t time, uint64_t bytes, uint32_t stack) {
    log.device_alloc(slot, time, ++id_, GPUPEAK_KIND_LINEAR, 0, bytes, 0, stack);
  }

 private:
  uint64_t id_ = 0;
};

Options with(RuleChoice rules, GroupBy by = GroupBy::kSite) {
  Options options;
  options.reading.rules = std::move(rules);
  options.by = by;
  return options;
}

/// "a: 10, b: 5" of the device's peak.
std::string rows(const Summary& summary, const std::string& scope = "device:0") {
  const Peak* peak = summary.find_peak(scope);
  REQUIRE(peak != nullptr);
  std::string text;
  for (const Holder& holder : peak->holders) {
    text += (text.empty() ? "" : ", ") + holder.title + ": " + std::to_string(holder.bytes);
  }
  return text;
}

/// "outer/inner begin..end" of each phase.
std::vector<std::string> phase_lines(const Summary& summary) {
  std::vector<std::string> lines;
  for (const PhaseSummary& phase : summary.phases) {
    lines.push_back((phase.parent ? *phase.parent + "/" : "") + phase.name + " " +
                    std::to_string(phase.begin_ns) + ".." +
                    (phase.end_ns ? std::to_string(*phase.end_ns) : "") + " " +
                    std::to_string(*metric(phase.metrics, "device.start_bytes")) + " " +
                    std::to_string(*metric(phase.metrics, "device.peak_bytes")) + " " +
                    std::to_string(*metric(phase.metrics, "device.end_bytes")));
  }
  return lines;
}

std::string message_of(const std::string& toml) {
  try {
    parse_rules(toml, "my.toml");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("glob: stars, question marks, and nothing else is special", "[collector]") {
  CHECK(glob_match("", ""));
  CHECK_FALSE(glob_match("", "a"));
  CHECK(glob_match("*", ""));
  CHECK(glob_match("a*c", "abbbc"));
  CHECK(glob_match("a*b*c", "a-b-b-c"));
  CHECK_FALSE(glob_match("a*b", "abc"));
  CHECK(glob_match("?bc", "abc"));
  CHECK_FALSE(glob_match("?", ""));
  CHECK(glob_match("operator[]*", "operator[](int)"));
  CHECK_FALSE(glob_match("[ab]", "a"));
  CHECK(glob_match("*aab", "aaaab"));
  CHECK_FALSE(glob_match(std::string(200, '*') + "b", std::string(5000, 'a')));
}

TEST_CASE("rules: a file with phases and tags", "[collector]") {
  const RuleSet set = parse_rules(R"(
name = "mine"
modules = ["libx.so*", "libz.so"]
[[phase]]
name = "load"
function = "load_*"
[[tag]]
name = "weights"
function = ["*::Weights", "*::Read"]
module = "libx*"
file = "weights.cc"
phase = "load"
)",
                                  "my.toml");
  CHECK(set.name == "mine");
  CHECK(set.chosen_by.size() == 2);
  REQUIRE(set.phases.size() == 1);
  CHECK(set.phases[0].functions == Lines{"load_*"});
  REQUIRE(set.tags.size() == 1);
  CHECK(set.tags[0].functions.size() == 2);
  CHECK(set.tags[0].phases == Lines{"load"});
}

TEST_CASE("rules: what is wrong is said with its line", "[collector]") {
  CHECK(message_of("[[tag]]\nname = \"a\"\nfunktion = \"b\"\n")
            .starts_with("my.toml:3: no such key"));
  CHECK(message_of("[[tag]]\nfunction = \"b\"\n").starts_with("my.toml:1: the rule has no name"));
  CHECK(message_of("[[phase]]\nname = \"a\"\n").find("says nothing about a frame") !=
        std::string::npos);
  CHECK(message_of("name = 3\n").starts_with("my.toml:1: 'name' must be a text"));
  CHECK(message_of("[[phase]]\nname=\"a\"\nphase=\"b\"\n").find("no such key 'phase'") !=
        std::string::npos);
  CHECK(message_of("tag = \"x\"\n").find("write [[tag]]") != std::string::npos);
  CHECK(message_of("[[tag]\n").starts_with("my.toml:1: "));
  CHECK(message_of("\n\nmodules = []\n").starts_with("my.toml:3: 'modules' is empty"));
}

TEST_CASE("rules: options", "[collector]") {
  const Rule plain = parse_rule_option("load=llama_model_load*");
  CHECK(plain.name == "load");
  CHECK(plain.functions == Lines{"llama_model_load*"});
  const Rule both = parse_rule_option("w=libx*!f?");
  CHECK(both.modules == Lines{"libx*"});
  CHECK(both.functions == Lines{"f?"});
  CHECK(parse_rule_option("w=libx.so!*").functions.empty());
  CHECK(parse_rule_option("ne=A::operator!=*").functions == Lines{"A::operator!=*"});
  CHECK_THROWS_AS(parse_rule_option("load"), UsageError);
  CHECK_THROWS_AS(parse_rule_option("=f"), UsageError);
  CHECK_THROWS_AS(parse_rule_option("a="), UsageError);
}

TEST_CASE("rules: every built-in set can be read", "[collector]") {
  CHECK(builtin_rules().size() >= 7);
  for (const BuiltinRules& rules : builtin_rules()) {
    INFO(rules.name);
    const RuleSet set = parse_rules(rules.toml, std::string(rules.name));
    CHECK_FALSE(set.description.empty());
    if (rules.name == "titles" || rules.name == "languages") {  // they apply to all
      CHECK(set.chosen_by.empty());
      CHECK_FALSE(set.names.plumbing.empty());
      CHECK(set.names.landmarks.empty() == (rules.name == "languages"));
      continue;
    }
    CHECK_FALSE(set.tags.empty());
    const bool is_for_those_who_ask =
        rules.name == "vllm" || rules.name == "sglang" || rules.name == "tensorrt-llm";
    CHECK(set.chosen_by.empty() == is_for_those_who_ask);
  }
}

namespace {

/// Of one frame the first tag and the first phase of a built-in set: "tag, phase".
std::string named_by(std::string_view set, const std::string& module, const std::string& function,
                     const std::string& file = "") {
  const auto found = std::find_if(builtin_rules().begin(), builtin_rules().end(),
                                  [&](const BuiltinRules& rules) { return rules.name == set; });
  REQUIRE(found != builtin_rules().end());
  const RuleSet rules = parse_rules(found->toml, std::string(set));
  Frame frame;
  frame.module = module;
  frame.function = function;
  frame.file = file;
  const auto first = [&](const std::vector<Rule>& list) {
    const auto rule = std::find_if(list.begin(), list.end(),
                                   [&](const Rule& r) { return rule_matches(r, frame); });
    return rule == list.end() ? "-" : rule->name;
  };
  return first(rules.tags) + ", " + first(rules.phases);
}

}  // namespace

// As c++filt, gdb and sanitizers print them: builds of ONNX Runtime, OpenVINO and XLA that keep
// their symbols, TensorRT's headers, PyTorch's and llama.cpp's libraries.
TEST_CASE("rules: the built-in sets know their libraries' functions", "[collector]") {
  const std::string text =
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  const std::string ort = "libonnxruntime.so.1";
  CHECK(
      named_by(
          "onnxruntime", ort,
          "onnxruntime::BFCArena::AllocateRawInternal(unsigned long, bool, onnxruntime::Stream*, "
          "bool, "
          "std::function<void (onnxruntime::Stream&, onnxruntime::synchronize::Notification&)>)") ==
      "BFC arena, -");
  CHECK(named_by(
            "onnxruntime", ort,
            "onnxruntime::session_state_utils::SaveInitializedTensors(onnxruntime::Env const&, " +
                text + " const&, onnxruntime::GraphViewer const&)") == "initialisers, -");
  CHECK(named_by("onnxruntime", ort, "onnxruntime::InferenceSession::Initialize()") ==
        "ONNX Runtime, create_session");
  CHECK(named_by("onnxruntime", ort,
                 "OrtApis::CreateSession(OrtEnv const*, char const*, OrtSessionOptions const*, "
                 "OrtSession**)") == "session, create_session");
  CHECK(named_by("onnxruntime", "libonnxruntime_providers_cuda.so",
                 "onnxruntime::cuda::Conv<float, "
                 "false>::UpdateState(onnxruntime::OpKernelContext*, bool) const") ==
        "cuDNN algorithm search, -");
  CHECK(named_by("onnxruntime", "libonnxruntime_providers_cuda.so", "") == "CUDA provider, -");

  const std::string openvino = "libopenvino.so.2540";
  CHECK(named_by("openvino", openvino, "ov::Core::Core(" + text + " const&)") ==
        "OpenVINO, create_core");
  CHECK(named_by("openvino", openvino,
                 "ov::Core::read_model(" + text + " const&, " + text + " const&) const") ==
        "OpenVINO, read_model");
  CHECK(named_by("openvino", openvino,
                 "ov::Core::compile_model(std::shared_ptr<ov::Model const> const&, " + text +
                     " const&, std::map<" + text + ", ov::Any> const&)") ==
        "OpenVINO, compile_model");
  CHECK(named_by("openvino", openvino, "ov::InferRequest::infer()") == "OpenVINO, infer");
  CHECK(named_by("openvino", openvino,
                 "ov::pass::Manager::run_passes(std::shared_ptr<ov::Model> const&)") ==
        "transformations, -");
  CHECK(named_by("openvino", openvino,
                 "ov::op::v0::Constant::Constant(ov::element::Type const&, ov::Shape const&, void "
                 "const*)") == "constants, -");
  CHECK(named_by("openvino", "libopenvino_intel_cpu_plugin.so",
                 "ov::intel_cpu::Graph::Allocate()") == "CPU plugin, -");

  CHECK(named_by("tensorrt", "libnvinfer.so.10", "createInferRuntime_INTERNAL") ==
        "TensorRT, create_runtime");
  CHECK(named_by("tensorrt", "trtexec",
                 "nvinfer1::IRuntime::deserializeCudaEngine(void const*, unsigned long)") ==
        "engine, deserialize");
  CHECK(named_by("tensorrt", "trtexec", "nvinfer1::IExecutionContext::enqueueV3(CUstream_st*)") ==
        "-, enqueue");

  const std::string xla = "xla_cuda_plugin.so";
  CHECK(named_by("jax", xla, "tsl::BFCAllocator::Extend(unsigned long, unsigned long)") ==
        "XLA pool, -");
  CHECK(named_by("jax", xla,
                 "xla::PjRtStreamExecutorLoadedExecutable::ExecuteSharded(absl::lts_20230802::Span<"
                 "xla::PjRtBuffer* "
                 "const>, xla::PjRtDevice*, xla::ExecuteOptions const&, "
                 "std::optional<xla::PjRtFuture<void>>&, bool)") == "XLA, execute");
  CHECK(named_by("jax", "compiler.py", "backend_compile_and_load", "/lib/jax/_src/compiler.py") ==
        "-, compile");

  const std::string torch = "libtorch_cpu.so";
  CHECK(named_by("pytorch", torch,
                 "at::_ops::conv2d::call(at::Tensor const&, at::Tensor const&, "
                 "std::optional<at::Tensor> const&)") == "convolutions, -");
  CHECK(named_by("pytorch", torch,
                 "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> "
                 "const&)") == "gradients, backward");
  CHECK(named_by("pytorch", "module.py", "Module._apply", "/lib/torch/nn/modules/module.py") ==
        "parameters, -");
  CHECK(named_by("pytorch", "optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper",
                 "/lib/torch/optim/optimizer.py") == "optimizer state, optimizer");
  CHECK(
      named_by("pytorch", torch,
               "c10::Dispatcher::registerImpl(c10::OperatorName, std::optional<c10::DispatchKey>, "
               "c10::KernelFunction)") == "operator registry, -");

  const std::string llama = "libllama.so.0";
  CHECK(named_by("llamacpp", llama, "llama_model_base::load_tensors(llama_model_loader&)") ==
        "weights, -");
  CHECK(named_by("llamacpp", llama, "llama_model::load_tensors(llama_model_loader&)") ==
        "weights, -");
  CHECK(named_by("llamacpp", llama, "llama_model_load_from_file") == "llama.cpp, load");
  CHECK(named_by("llamacpp", "libggml-cuda.so",
                 "ggml_cuda_pool_vmm::alloc(unsigned long, unsigned long*)") == "CUDA pool, -");

  CHECK(named_by("cuda", "libcudnn_engines_precompiled.so.9", "") == "cuDNN, -");
  CHECK(named_by("cuda", "libcublasLt.so.13", "") == "cuBLAS workspace, -");
  CHECK(named_by("cuda", "libnccl.so.2", "") == "NCCL, -");
}

TEST_CASE("rules: an unknown set is refused with those that there are", "[collector]") {
  LogBuilder log;
  log.alloc(0, 1, 0x1000, 1);
  std::string message;
  try {
    analyze_log(log, with({{"nonesuch"}, {}, {}}));
  } catch (const UsageError& error) {
    message = error.what();
  }
  CHECK(message.find("no such set") != std::string::npos);
  CHECK(message.find("onnxruntime") != std::string::npos);
}

TEST_CASE("rules: the first tag rule that matches any frame counts", "[collector]") {
  Stacks s;
  s.alloc(0, 1, 100, s.inner);  // both: the first rule
  s.alloc(0, 2, 50, s.direct);  // the second only
  s.alloc(0, 3, 7, s.main);     // none
  const Summary summary = analyze_log(
      s.log, with({{}, {}, {"outer=libload*!*", "inner=libinner.so!*"}}, GroupBy::kTag));
  CHECK(rows(summary) == "outer: 100, inner: 50, Others: 7");
  const Summary turned = analyze_log(
      s.log, with({{}, {}, {"inner=libinner.so!*", "outer=libload*!*"}}, GroupBy::kTag));
  CHECK(rows(turned) == "inner: 150, Others: 7");
}

TEST_CASE("rules: the program's own tags come first, of nested ones the innermost", "[collector]") {
  Stacks s;
  const uint32_t weights = s.log.string("weights");
  s.log.event(0, 1, GPUPEAK_REC_TAG_PUSH, Fields().u(weights));
  s.alloc(0, 2, 100, s.inner);
  s.log.event(0, 3, GPUPEAK_REC_TAG_PUSH, Fields().u(0).s("bias"));
  s.alloc(0, 4, 30, s.inner);
  s.log.event(0, 5, GPUPEAK_REC_TAG_POP, Fields());
  s.alloc(0, 6, 10, s.inner);
  s.log.event(0, 7, GPUPEAK_REC_TAG_POP, Fields());
  s.log.event(0, 8, GPUPEAK_REC_TAG_POP, Fields());  // one too many
  s.alloc(0, 9, 5, s.inner);
  s.alloc(1, 9, 3, s.inner);  // another thread
  const Summary summary =
      analyze_log(s.log, with({{}, {}, {"inner=libinner.so!*"}}, GroupBy::kTag));
  CHECK(rows(summary) == "weights: 110, bias: 30, inner: 8");
}

TEST_CASE("rules: sets are chosen by the modules in the log, for tags alone", "[collector]") {
  LogBuilder log;
  log.module("/usr/lib/libcublas.so.12", "", 0x100000, 0x100000, 0x1000);
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 64, 0, log.node(0, 0x100100));
  const Summary chosen = analyze_log(log, with({}, GroupBy::kTag));
  CHECK(chosen.rules.sets == Lines{"cuda"});
  CHECK(chosen.rules.automatic);
  CHECK(rows(chosen) == "cuBLAS workspace: 64");
  CHECK(chosen.phases.empty());
  const Summary asked = analyze_log(log, with({{"vllm", "auto"}, {}, {}}, GroupBy::kTag));
  CHECK(asked.rules.sets == Lines{"vllm", "cuda"});
  CHECK_FALSE(asked.rules.automatic);  // not all of them by the modules
  CHECK(rows(asked) == "cuBLAS workspace: 64");
  const Summary off = analyze_log(log, with({{"none"}, {}, {}}, GroupBy::kTag));
  CHECK(off.rules.sets.empty());
  CHECK(rows(off) == "Others: 64");
}

TEST_CASE("rules: a function is matched with and without its parameters, inlined ones too",
          "[collector]") {
  const ThisProgram self = this_program();
  LogBuilder log;
  log.module(self.path, "", self.bias, self.begin, self.end - self.begin);
  const auto ip = reinterpret_cast<uint64_t>(address_in_inlined_function());
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 64, 0, log.node(0, ip));
  const auto tag = [&](const std::string& rule) {
    return rows(analyze_log(log, with({{"none"}, {}, {rule}}, GroupBy::kTag)));
  };
  CHECK(tag("x=gpupeak::testing::sample_inner") == "x: 64");
  CHECK(tag("x=*sample_outer<int>") == "x: 64");
  CHECK(tag("x=*sample_outer<int>(*") == "x: 64");
  CHECK(tag("x=sample_inner") == "Others: 64");
  CHECK(tag("x=libelse.so!*sample_inner*") == "Others: 64");
  const TemporaryFile file;
  std::ofstream(file.path()) << "[[tag]]\nname = \"by file\"\nfile = \"inline_sample.cc\"\n";
  CHECK(rows(analyze_log(log, with({{file.path()}, {}, {}}, GroupBy::kTag))) == "by file: 64");
}

TEST_CASE("rules: a phase lasts from the first event with its frame to the next without it",
          "[collector]") {
  Stacks s;
  s.alloc(0, 10, 100, s.main);
  s.alloc(0, 20, 50, s.load);
  s.alloc(1, 25, 1, s.main);  // another thread says nothing of this one
  s.alloc(0, 30, 10, s.inner);
  s.log.device_free(0, 35, 1);  // without a stack: still within
  s.alloc(0, 40, 1000, s.main);
  const Options options = with({{"none"}, {"load=libload*!*", "never=nothing"}, {}});
  const Summary summary = analyze_log(s.log, options);
  CHECK(phase_lines(summary) == Lines{"load 20..40 100 161 61"});
  CHECK(*metric(summary.phases[0].metrics, "device.alloc_count") == 2);
  CHECK(summary.phases[0].source == "rule");
}

namespace {

PhaseSummary phase_called(const Summary& summary, const std::string& name) {
  for (const PhaseSummary& phase : summary.phases) {
    if (phase.name == name) return phase;
  }
  FAIL("there is no phase " + name);
  return summary.phases.front();
}

Summary calls_of_load(LogBuilder& log) {
  RuleChoice choice;
  choice.phases = {"load=libload*!*#"};
  return analyze_log(log, with(choice));
}

}  // namespace

TEST_CASE("rules: calls from two places are two, what only lies deeper within one is not",
          "[collector]") {
  Stacks s;
  const uint32_t load = s.log.node(s.log.node(s.main, 0x100300), 0x200100);
  const uint32_t inner = s.log.node(load, 0x300100);
  const uint32_t other_line = s.log.node(s.log.node(s.main, 0x100400), 0x200100);
  s.alloc(0, 1, 10, load);
  s.alloc(0, 2, 20, inner);       // the same call
  s.alloc(0, 3, 40, other_line);  // another one: the return address in the caller is another
  s.alloc(0, 4, 80, load);
  const PhaseSummary phase = phase_called(calls_of_load(s.log), "load");
  CHECK(phase.count == 3);
  REQUIRE(phase.calls);
  CHECK(phase.calls->device.largest == 3);
  CHECK(phase.calls->device.largest_rise_bytes == 80);
  CHECK(phase.calls->device.grown_bytes == (phase.calls->ended == 3 ? 120 : 40));
}

TEST_CASE("rules: callers that a walk has not reached tell no calls apart", "[collector]") {
  Stacks s;
  const uint32_t no_main = s.log.node(s.log.node(0, 0x300300), 0x200100);  // ended in libinner
  const uint32_t alone = s.log.node(0, 0x200100);
  for (uint32_t i = 0; i < 4; ++i) {
    s.alloc(0, 1 + 3 * i, 10, s.load);
    s.alloc(0, 2 + 3 * i, 10, no_main);
    s.alloc(0, 3 + 3 * i, 10, alone);
  }
  CHECK(phase_called(calls_of_load(s.log), "load").count == 1);
}

TEST_CASE("rules: a function of Python's frames between native ones does not part a call",
          "[collector]") {
  Stacks s;
  s.log.python_frame(s.log.string("step"), s.log.string("/x/train.py"), 7);
  const uint32_t python = s.log.node(s.main, GPUPEAK_PYTHON_IP + 1);
  const uint32_t within = s.log.node(python, 0x200100);
  s.alloc(0, 1, 10, s.load);
  s.alloc(0, 2, 10, within);
  s.alloc(0, 3, 10, s.load);
  CHECK(phase_called(calls_of_load(s.log), "load").count == 1);
}

TEST_CASE("rules: a phase ends with the last event of its thread if that rests", "[collector]") {
  const Options options = with({{"none"}, {"load=libload*!*"}, {}});
  Stacks wakes;
  wakes.alloc(1, 10, 100, wakes.load);
  wakes.log.device_free(1, 15, 1);
  wakes.alloc(1, 18, 70, wakes.load);
  wakes.alloc(0, 20, 1000, wakes.main);
  wakes.alloc(1, 30, 1, wakes.main);
  CHECK(phase_lines(analyze_log(wakes.log, options)) == Lines{"load 10..18 0 100 70"});

  Stacks goes_on;
  goes_on.alloc(1, 10, 100, goes_on.load);
  goes_on.alloc(0, 20, 1000, goes_on.main);
  goes_on.alloc(1, 30, 1, goes_on.inner);
  goes_on.alloc(1, 40, 1, goes_on.main);
  CHECK(phase_lines(analyze_log(goes_on.log, options)) == Lines{"load 10..40 0 1101 1101"});

  Stacks never_wakes;
  const uint32_t outer = never_wakes.log.string("outer");
  never_wakes.log.phase_push(1, 5, false, outer);
  never_wakes.alloc(1, 10, 100, never_wakes.load);
  never_wakes.alloc(0, 20, 1000, never_wakes.main);
  never_wakes.log.device_free(0, 30, 2);
  const Summary summary = analyze_log(never_wakes.log, options);
  CHECK(phase_lines(summary) == Lines{"outer 5..30 0 1100 100", "outer/load 10..10 0 100 100"});
  CHECK(*metric(summary.phases[1].metrics, "device.kept_bytes") == 100);
}

TEST_CASE("rules: the outermost frame that matches any phase decides", "[collector]") {
  Stacks s;
  s.alloc(0, 10, 100, s.inner);
  s.alloc(0, 20, 10, s.direct);
  const Summary summary =
      analyze_log(s.log, with({{"none"}, {"inner=libinner.so!*", "load=libload*!*"}, {}}));
  CHECK(phase_lines(summary) == Lines{"load 10..20 0 100 100", "inner 20..20 100 110 110"});
}

TEST_CASE("rules: a logged phase within a rule's phase is told from one after it", "[collector]") {
  const Options options = with({{"none"}, {"load=libload*!*"}, {}});
  Stacks within;
  const uint32_t layer = within.log.string("layer");
  within.alloc(0, 10, 100, within.load);
  within.log.phase_push(0, 20, false, layer);
  within.alloc(0, 30, 10, within.inner);
  within.log.phase_pop(0, 40, false);
  within.alloc(0, 50, 1, within.main);
  CHECK(phase_lines(analyze_log(within.log, options)) ==
        Lines{"load 10..50 0 110 110", "load/layer 20..40 100 110 110"});

  Stacks after;
  const uint32_t decode = after.log.string("decode");
  after.alloc(0, 10, 100, after.load);
  after.log.phase_push(0, 20, false, decode);
  after.log.phase_push(0, 25, false, decode);
  after.alloc(0, 30, 10, after.direct);
  after.log.phase_pop(0, 40, false);
  after.alloc(0, 45, 5, after.main);
  after.log.phase_pop(0, 50, false);
  CHECK(phase_lines(analyze_log(after.log, options)) == Lines{"load 10..20 0 100 100",
                                                              "decode 20..50 100 115 115",
                                                              "decode/decode 25..40 100 110 110"});
}

TEST_CASE("rules: a rule's phase ends with the logged phase that it began in", "[collector]") {
  Stacks s;
  const uint32_t setup = s.log.string("setup");
  s.log.phase_push(0, 5, false, setup);
  s.alloc(0, 10, 100, s.load);
  s.log.phase_pop(0, 20, false);
  s.alloc(0, 30, 1, s.load);
  s.alloc(0, 40, 1, s.main);
  const Summary summary = analyze_log(s.log, with({{"none"}, {"load=libload*!*"}, {}}));
  CHECK(phase_lines(summary) ==
        Lines{"setup 5..20 0 100 100", "setup/load 10..20 0 100 100", "load 30..40 100 101 101"});
  for (const Warning& warning : summary.quality.warnings)
    CHECK(warning.code != WarningCode::kUnbalancedPhases);
}

TEST_CASE("rules: a phase that the program logs itself stands for the rule's of the same name",
          "[collector]") {
  Stacks s;
  const uint32_t load = s.log.string("load");
  s.log.phase_push(0, 5, false, load);
  s.alloc(0, 10, 100, s.load);
  s.log.phase_pop(0, 20, false);
  const Summary summary = analyze_log(s.log, with({{"none"}, {"load=libload*!*"}, {}}));
  CHECK(phase_lines(summary) == Lines{"load 5..20 0 100 100"});
  CHECK(summary.phases[0].source == "api");
}

TEST_CASE("rules: heap events and their frees move phases, too", "[collector]") {
  Stacks s;
  s.log.alloc(0, 10, 0x1000, 100, s.load);
  s.log.free(0, 20, 0x1000);
  s.log.alloc(0, 30, 0x2000, 40, s.inner);
  s.log.realloc_begin(0, 40, 0x2000);
  s.log.realloc_end(0, 50, 0x3000, 60, s.direct);
  const Summary summary = analyze_log(s.log, with({{"none"}, {"load=libload*!*"}, {}}));
  REQUIRE(summary.phases.size() == 1);
  const PhaseSummary& load = summary.phases[0];
  CHECK(load.begin_ns == 10);
  CHECK(load.end_ns == 50);
  CHECK(*metric(load.metrics, "host.peak_bytes") == 100);
  CHECK(*metric(load.metrics, "host.end_bytes") == 40);
  CHECK(*metric(load.metrics, "host.kept_bytes") == 40);
}

TEST_CASE("rules: stacks that do not tell Python's frames leave a phase of theirs open",
          "[collector]") {
  Stacks s;
  s.log.module("/usr/bin/python3", "", 0x400000, 0x400000, 0x10000);
  const uint32_t evaluate = s.log.node(0, 0x400100), file = s.log.string("/x/session.py");
  s.log.python_frame(s.log.string("run"), file, 7);
  s.log.python_frame(s.log.string("main"), file, 9);
  const uint32_t run = s.log.node(evaluate, GPUPEAK_PYTHON_IP + 1);
  const uint32_t other = s.log.node(evaluate, GPUPEAK_PYTHON_IP + 2);
  const uint32_t large = s.log.node(run, 0x300100), later = s.log.node(other, 0x300100);
  // The same calls, Python's frames not read.
  const uint32_t small = s.log.node(evaluate, 0x300100);
  const auto end_after = [&](std::vector<uint32_t> stacks) {
    LogBuilder log = s.log;
    uint64_t time = 0;
    for (const uint32_t stack : stacks) {
      time += 10;
      log.alloc(0, time, 0x1000 * time, 100, stack);
    }
    const Summary summary =
        analyze_log(log, with({{"none"}, {"run=session.py!run", "load=libload*!*"}, {}}));
    REQUIRE_FALSE(summary.phases.empty());
    CHECK(summary.phases[0].name == "run");
    CHECK(summary.phases[0].begin_ns == 10);
    return summary.phases[0].end_ns.value_or(0);
  };
  CHECK(end_after({large, small, small, later, small}) == 40);
  CHECK(end_after({large, small, large, later}) == 40);
  CHECK(end_after({large, s.main}) == 20);  // not in Python at all
  CHECK(end_after({large, small, s.load}) == 30);
}

TEST_CASE("rules: thousands of changes between two phases stay two rows", "[collector]") {
  Stacks s;
  for (uint64_t i = 0; i < 5000; ++i) s.alloc(0, i, 1, i % 2 == 0 ? s.load : s.direct);
  const Summary summary =
      analyze_log(s.log, with({{"none"}, {"load=libload*!*", "inner=libinner.so!*"}, {}}));
  REQUIRE(summary.phases.size() == 2);
  CHECK(summary.phases[0].count == 2500);
  CHECK(summary.phases[0].instances.size() == 1);
  CHECK(*metric(summary.phases[1].metrics, "device.live_at_exit_bytes") == 2500);
}

TEST_CASE("tags: two views add up to the peak, and so does the CSV", "[collector]") {
  Stacks s;
  const uint32_t conv = s.log.string("conv1");
  s.log.phase_push(0, 1, false, conv);
  s.alloc(0, 2, 3 << 20, s.inner);
  s.alloc(0, 3, 1 << 20, s.main);
  s.log.phase_pop(0, 4, false);
  s.alloc(0, 5, 1, s.direct);
  const TemporaryFile file;
  Reading reading;
  reading.rules = {{"none"}, {}, {"in,ner=libinner.so!*"}};
  Profile profile(s.log.save(file.path()), {}, nullptr, reading);
  const ScopeId scope = profile.scope("device:0");
  std::ostringstream csv;
  write_tags(profile, held_at_peak(profile, scope), 1, csv, kAsCsv);
  CHECK(csv.str() == "\"in,ner\",3.00000095367431640625\nOthers,1.0\n");
  std::ostringstream text;
  write_tags(profile, held_at_peak(profile, scope), 1, text, {});
  CHECK(text.str().find("by data structure") != std::string::npos);
  CHECK(text.str().find("Untrackable: not measured") != std::string::npos);
  CHECK(text.str().find("2 more") != std::string::npos);
  std::ostringstream out;
  write_tags(profile, held_at_peak(profile, scope), 1, out, kAsJson);
  const auto json = nlohmann::json::parse(out.str());
  for (const char* view : {"layers", "tags"}) {
    uint64_t sum = 0;
    for (const auto& row : json[view]) sum += row["bytes"].get<uint64_t>();
    CHECK(sum == json["bytes"].get<uint64_t>());
  }
  CHECK(json["layers"][0]["name"] == "conv1");
  CHECK(json["untrackable_bytes"].is_null());
  CHECK(json["entries"].size() == 1);
}

TEST_CASE("tags: a rule may ask for the phase", "[collector]") {
  Stacks s;
  const uint32_t conv = s.log.string("conv1");
  s.alloc(0, 1, 10, s.main);
  s.log.phase_push(0, 2, false, conv);
  s.alloc(0, 3, 100, s.main);
  s.alloc(0, 4, 1000, s.inner);
  s.log.phase_pop(0, 5, false);
  const TemporaryFile file;
  std::ofstream(file.path())
      << "[[tag]]\nname=\"inner conv\"\nphase=\"conv*\"\nmodule=\"libinner*\"\n"
      << "[[tag]]\nname=\"convolution\"\nphase=\"conv*\"\n";
  const Summary summary = analyze_log(s.log, with({{file.path()}, {}, {}}, GroupBy::kTag));
  CHECK(rows(summary) == "inner conv: 1000, convolution: 100, Others: 10");
}
