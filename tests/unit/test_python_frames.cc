#include <sstream>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/write/writers.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// allocate() of a library ← the interpreter ← f, called by g ← the interpreter ← main.
struct PythonLog {
  LogBuilder log;
  uint32_t native = 0;

  uint32_t python(uint32_t parent, uint32_t number) {
    return log.node(parent, GPUPEAK_PYTHON_IP + number);
  }

  PythonLog() {
    log.module("/usr/bin/host", "", 0, 0x1000, 0x1000);
    log.module("/usr/lib/libpython3.11.so.1.0", "", 0, 0x3000, 0x1000);
    log.module("/usr/lib/liballoc.so", "", 0, 0x5000, 0x1000);
    log.module("/usr/lib/libcuda.so.1", "", 0, 0x7000, 0x1000);
    const uint32_t f = log.string("Model.__init__"), g = log.string("<module>");
    const uint32_t file = log.string("/work/model.py"), main = log.string("main.py");
    log.python_frame(f, file, 12);
    log.python_frame(g, main, 3);
    log.python_frame(f, file, 13);
    log.python_frame(0, 99, 0);  // of a damaged log
    native = log.node(log.node(0, 0x1500), 0x3500);
  }
  /// The allocation's node on top of Python frame `number`, called at line 3 of main.py.
  uint32_t site(uint32_t number, uint64_t leaf = 0x5500) {
    const uint32_t frames = python(python(native, 2), number);
    return log.node(log.node(log.node(frames, 0x3600), leaf), 0x7500);
  }
};

const Peak& device_peak(const Summary& summary) {
  const Peak* peak = summary.find_peak("device:0");
  REQUIRE(peak != nullptr);
  return *peak;
}

}  // namespace

TEST_CASE("python_frames: they lie between native frames, innermost first", "[collector]") {
  PythonLog python;
  python.log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100, 0, python.site(1));
  const Summary summary = analyze_log(python.log);
  const Holder& holder = device_peak(summary).holders.at(0);
  REQUIRE(holder.stack.size() == 7);
  CHECK(holder.stack[1].module == "liballoc.so");
  CHECK(holder.stack[2].module == "libpython3.11.so.1.0");
  const Frame& inner = holder.stack[3];
  CHECK(inner.is_python);
  CHECK(inner.function == "Model.__init__");
  CHECK(inner.file == "/work/model.py");
  CHECK(inner.module == "model.py");
  CHECK(inner.line == 12);
  CHECK(holder.stack[4].function == "<module>");
  CHECK(holder.stack[4].line == 3);
  CHECK_FALSE(holder.stack[5].is_python);
  CHECK(holder.title == "liballoc.so+0x5500 ← Model.__init__ model.py:12 ← <module> main.py:3");
}

TEST_CASE("python_frames: lines are sites of their own", "[collector]") {
  PythonLog python;
  python.log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100, 0, python.site(1));
  python.log.device_alloc(0, 20, 2, GPUPEAK_KIND_LINEAR, 0, 200, 0, python.site(3));
  python.log.device_alloc(0, 30, 3, GPUPEAK_KIND_LINEAR, 0, 300, 0, python.site(3));
  const Summary by_site = analyze_log(python.log);
  const std::vector<Holder>& sites = device_peak(by_site).holders;
  REQUIRE(sites.size() == 2);
  CHECK(sites[0].bytes == 500);
  CHECK(sites[0].title == "liballoc.so+0x5500 ← Model.__init__ model.py:13 ← <module> main.py:3");
  Options options;
  options.by = GroupBy::kModule;
  const Summary by_module = analyze_log(python.log, options);
  CHECK(device_peak(by_module).holders.size() == 1);
}

TEST_CASE("python_frames: without another library's frame Python's come first", "[collector]") {
  PythonLog python;
  python.log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100, 0, python.site(1, 0x3700));
  const Summary summary = analyze_log(python.log);
  CHECK(device_peak(summary).holders.at(0).title ==
        "Model.__init__ model.py:12 ← <module> main.py:3");
}

TEST_CASE("python_frames: titles go from an installed package to the program", "[collector]") {
  PythonLog python;
  const uint32_t library = python.log.string("/opt/venv/lib/python3.12/site-packages/nn/conv.py");
  python.log.python_frame(python.log.string("Conv.forward"), library, 548);
  python.log.python_frame(python.log.string("Module.call"), library, 70);
  const uint32_t caller = python.python(python.python(python.native, 2), 1);
  const uint32_t inner = python.python(python.python(python.python(caller, 6), 6), 5);
  python.log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100, 0, python.log.node(inner, 0x5500));
  const Summary summary = analyze_log(python.log);
  CHECK(device_peak(summary).holders.at(0).title ==
        "liballoc.so+0x5500 ← Conv.forward conv.py:548 ← Model.__init__ model.py:12");
}

TEST_CASE("python_frames: titles pass over Python's own import", "[collector]") {
  PythonLog python;
  python.log.python_frame(python.log.string("_call_with_frames_removed"),
                          python.log.string("<frozen importlib._bootstrap>"), 241);
  python.log.python_frame(python.log.string("free"), python.log.string("/work/pool.py"), 5);
  const auto title_of = [&](uint32_t innermost) {
    PythonLog own = python;
    const uint32_t importing = own.python(own.python(own.native, 2), 5);
    const uint32_t top = innermost != 0 ? own.python(importing, innermost) : importing;
    own.log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100, 0, own.log.node(top, 0x5500));
    return device_peak(analyze_log(own.log)).holders.at(0).title;
  };
  CHECK(title_of(1) == "liballoc.so+0x5500 ← Model.__init__ model.py:12 ← <module> main.py:3");
  CHECK(title_of(0) == "liballoc.so+0x5500 ← <module> main.py:3");
  // A name that is plumbing in C says nothing of a function in Python.
  CHECK(title_of(6) == "liballoc.so+0x5500 ← free pool.py:5 ← <module> main.py:3");
}

TEST_CASE("python_frames: what a damaged log does not define is unknown", "[collector]") {
  for (const uint32_t number : {4u, 5u, 77u, 0xffffffffu}) {
    PythonLog python;
    python.log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100, 0, python.site(number));
    const Summary summary = analyze_log(python.log);
    CHECK(device_peak(summary).holders.at(0).stack.at(3).function == "(unknown)");
  }
}

TEST_CASE("python_frames: dump and JSON say what they are", "[collector]") {
  PythonLog python;
  python.log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100, 0, python.site(1));
  const TemporaryFile file;
  python.log.save(file.path());
  std::ostringstream dump;
  write_dump(LogReader(file.path()), dump, {});
  CHECK(dump.str().find("python_frame 1 Model.__init__ /work/model.py:12\n") != std::string::npos);
  CHECK(dump.str().find("node 3 parent 2 python_frame 2\n") != std::string::npos);
  std::ostringstream json;
  write_json(gpupeak::collector::analyze(file.path()), json);
  CHECK(json.str().find("\"language\": \"python\"") != std::string::npos);
}

TEST_CASE("python_frames: why there are none is said", "[collector]") {
  LogBuilder log;
  log.fact("python", "3.15.0");
  log.fact("python.off", "its version is not known");
  log.counters().quality |= GPUPEAK_Q_PYTHON_OFF;
  log.counters().unread_python_stacks = 2;
  const Summary summary = analyze_log(log);
  const auto has = [&](const std::string& code, const std::string& message) {
    for (const Warning& warning : summary.quality.warnings) {
      if (code_text(warning.code) == code && warning.message.find(message) != std::string::npos)
        return true;
    }
    return false;
  };
  CHECK(has("GP040", "its version is not known (Python 3.15.0)"));
  CHECK(has("GP041", "2 allocations"));
}
