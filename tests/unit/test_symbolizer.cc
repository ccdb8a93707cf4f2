#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/log/log_reader.h"
#include "collector/log/symbol_table.h"
#include "collector/symbols/keep_names.h"
#include "collector/text/error.h"
#include "inline_sample.h"
#include "log_builder.h"
#include "this_program.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

const Holder& only_holder(const Summary& summary) {
  const Peak* peak = summary.find_peak("host/heap");
  REQUIRE(peak != nullptr);
  REQUIRE(peak->holders.size() == 1);
  return peak->holders[0];
}

Summary analyze_one(LogBuilder& log, uint32_t stack) {
  log.alloc(0, 1, 0x1000, 64, stack);
  const TemporaryFile file;
  return analyze(log.save(file.path()));
}

std::vector<std::string> codes(const Summary& summary) {
  std::vector<std::string> codes;
  for (const Warning& warning : summary.quality.warnings) codes.push_back(code_text(warning.code));
  return codes;
}

}  // namespace

TEST_CASE("symbolizer: inlined functions come before the one they are inlined into",
          "[collector]") {
  const ThisProgram self = this_program();
  LogBuilder log;
  log.module(self.path, "", self.bias, self.begin, self.end - self.begin);
  const auto ip = reinterpret_cast<uint64_t>(address_in_inlined_function());
  const Summary summary = analyze_one(log, log.node(0, ip));
  const Holder& holder = only_holder(summary);
  REQUIRE(holder.stack.size() == 2);
  CHECK(holder.stack[0].function.find("sample_inner") != std::string::npos);
  CHECK(holder.stack[1].function.find("sample_outer<int>") != std::string::npos);
  CHECK(holder.stack[0].file.find("inline_sample.cc") != std::string::npos);
  CHECK(holder.stack[0].line > 0);
  CHECK(holder.stack[1].line > holder.stack[0].line);
  CHECK(holder.stack[0].offset == ip - self.bias);
  CHECK(holder.title == fmt::format("gpupeak::testing::sample_inner inline_sample.cc:{} ← "
                                    "gpupeak::testing::sample_outer<int> inline_sample.cc:{}",
                                    holder.stack[0].line, holder.stack[1].line));
  CHECK_FALSE(holder.has_no_name());
  CHECK(codes(summary).empty());
}

TEST_CASE("symbolizer: of names to keep some are left out where time or room is short",
          "[collector]") {
  const ThisProgram self = this_program();
  LogBuilder log;
  log.module(self.path, "", self.bias, self.begin, self.end - self.begin);
  log.module("/usr/lib/libpackage.so", "", 0x10000, 0x10000, 0x1000);
  const auto ip = reinterpret_cast<uint64_t>(address_in_inlined_function());
  log.node(log.node(0, ip), ip + 1);
  log.node(0, 0x10100);
  const TemporaryFile file;
  const LogReader reader(log.save(file.path()));
  const auto keep = [&reader](std::chrono::seconds time, uint64_t bytes) {
    const auto until = std::chrono::steady_clock::now() + time;
    return keep_names(reader, {}, {.bytes = bytes, .until = until}, {});
  };
  const std::vector<Module>& modules = reader.definitions().modules();
  const auto said_of = [&modules](const KeptNames& names, size_t module) {
    return std::string(names.table.problem(modules.at(module)));
  };
  constexpr std::chrono::hours kEnough{1};
  constexpr uint64_t kRoom = 1 << 20;
  const KeptNames all = keep(kEnough, kRoom);
  CHECK(all.modules == 1);
  CHECK(all.left_out == 0);
  CHECK(said_of(all, 1) == kKeptAtEnd);
  CHECK(said_of(all, 2) == kNotKept);  // it is a package's
  const KeptNames without_time = keep(std::chrono::seconds(0), kRoom);
  CHECK(without_time.modules == 0);
  CHECK(without_time.left_out == 1);
  CHECK(said_of(without_time, 1) == kNotKept);
  const KeptNames without_room = keep(kEnough, 1);
  CHECK(without_room.modules == 1);
  CHECK(without_room.left_out == 1);
  CHECK(said_of(without_room, 1) == kKeptInPart);
}

TEST_CASE("symbolizer: names of a large file are kept unasked where there is time to read it",
          "[collector]") {
  const ThisProgram self = this_program();
  const TemporaryFile program;
  std::filesystem::copy_file(self.path, program.path(),
                             std::filesystem::copy_options::overwrite_existing);
  const uintmax_t large = std::max<uintmax_t>(std::filesystem::file_size(self.path), 40 << 20);
  std::filesystem::resize_file(program.path(), large);
  LogBuilder log;
  log.module(program.path(), "", self.bias, self.begin, self.end - self.begin);
  log.node(0, reinterpret_cast<uint64_t>(address_in_inlined_function()));
  const TemporaryFile file;
  const LogReader reader(log.save(file.path()));
  const auto keep = [&reader](std::chrono::milliseconds time, bool asked) {
    const auto until = std::chrono::steady_clock::now() + time;
    return keep_names(reader, {}, {.large_files = asked, .bytes = 1 << 20, .until = until}, {});
  };
  CHECK(keep(std::chrono::hours(1), false).modules == 1);
  CHECK(keep(std::chrono::milliseconds(1), false).left_out == 0);  // it is not begun
  CHECK(keep(std::chrono::milliseconds(0), true).left_out == 1);
}

TEST_CASE("symbolizer: system packages' folders are told from others", "[collector]") {
  CHECK(is_of_system("/usr/lib/x86_64-linux-gnu/libc.so.6"));
  CHECK(is_of_system("/lib64/ld-linux-x86-64.so.2"));
  CHECK(is_of_system("/usr/local/nvidia/lib64/libcuda.so.1"));
  CHECK(is_of_system("/usr/local/cuda-13.0/lib64/libcublas.so.13"));
  CHECK_FALSE(is_of_system("/usr/local/bin/engine"));
  CHECK_FALSE(is_of_system("/home/me/build/engine"));
  CHECK_FALSE(is_of_system("/library/engine"));
}

TEST_CASE("symbolizer: without the file there are offsets and one warning", "[collector]") {
  LogBuilder log;
  log.module("/nowhere/libgone\x1b.so", "id", 0x10000, 0x10000, 0x1000);
  const uint32_t outer = log.node(0, 0x10200);
  const Summary summary = analyze_one(log, log.node(outer, 0x10100));
  CHECK(only_holder(summary).title == "libgone\\x1b.so+0x100 ← libgone\\x1b.so+0x200");
  CHECK(only_holder(summary).module == "libgone\\x1b.so");
  CHECK(only_holder(summary).has_no_name());
  CHECK(codes(summary) == std::vector<std::string>{"GP025"});
}

TEST_CASE("symbolizer: a file with another build-id gives no names", "[collector]") {
  const ThisProgram self = this_program();
  LogBuilder log;
  log.module(self.path, "not this build", self.bias, self.begin, self.end - self.begin);
  const auto ip = reinterpret_cast<uint64_t>(address_in_inlined_function());
  const Summary summary = analyze_one(log, log.node(0, ip));
  REQUIRE(only_holder(summary).stack.size() == 1);
  CHECK(only_holder(summary).stack[0].function.empty());
  CHECK(codes(summary) == std::vector<std::string>{"GP026"});
}

TEST_CASE("symbolizer: code without a module is an address", "[collector]") {
  LogBuilder log;
  const Summary summary = analyze_one(log, log.node(0, 0x7f1234));
  CHECK(only_holder(summary).title == "0x7f1234");
  CHECK(codes(summary).empty());
}

TEST_CASE("symbolizer: a node belongs to the module loaded when it was defined", "[collector]") {
  LogBuilder log;
  const uint32_t first = log.module("/a/one.so", "", 0x10000, 0x10000, 0x1000);
  const uint32_t in_first = log.node(0, 0x10100);
  log.unload(first);
  const uint32_t between = log.node(0, 0x10104);
  log.module("/a/two.so", "", 0x10000, 0x10000, 0x1000);
  const uint32_t in_second = log.node(0, 0x10108);
  log.alloc(0, 1, 0x1000, 30, in_first);
  log.alloc(0, 2, 0x2000, 20, between);
  log.alloc(0, 3, 0x3000, 10, in_second);
  const TemporaryFile file;
  const Summary summary = analyze(log.save(file.path()));
  const auto& holders = summary.find_peak("host/heap")->holders;
  REQUIRE(holders.size() == 3);
  CHECK(holders[0].title == "one.so+0x100");
  CHECK(holders[1].title == "0x10104");
  CHECK(holders[2].title == "two.so+0x108");
}

TEST_CASE("attribution: many stacks at once have the titles that each has alone", "[collector]") {
  const ThisProgram self = this_program();
  LogBuilder log;
  log.module(self.path, "", self.bias, self.begin, self.end - self.begin);
  log.module("/a/one.so", "", 0x10000, 0x10000, 0x10000);
  std::vector<uint32_t> stacks;
  for (uint32_t i = 0; i < 1000; ++i) {
    const uint64_t step = (self.end - self.begin) / 1000;
    uint32_t node = log.node(0, self.begin + i * step);
    for (uint32_t unnamed = i % 5; unnamed > 0; --unnamed)  // runs of frames without names
      node = log.node(node, 0x10000 + i + unnamed * 0x1000);
    stacks.push_back(node);
  }
  const TemporaryFile file;
  const LogReader reader(log.save(file.path()));
  Symbolizer symbolizer(reader.definitions(), {});
  SiteTitles at_once(reader.definitions(), symbolizer);
  SiteTitles alone(reader.definitions(), symbolizer);
  at_once.prepare(stacks);
  for (const uint32_t stack : stacks) REQUIRE(at_once.title(stack) == alone.title(stack));
}

TEST_CASE("attribution: every grouping adds up to the peak", "[collector]") {
  LogBuilder log;
  log.module("/a/one.so", "", 0x10000, 0x10000, 0x1000);
  const uint32_t api = log.string("cuMemAlloc_v2");
  const uint32_t a = log.node(0, 0x10100);
  const uint32_t b = log.node(a, 0x10200);
  log.alloc(0, 1, 0x1000, 30, a);
  log.alloc(1, 2, 0x2000, 20, b);
  log.alloc(1, 3, 0x3000, 7);
  log.device_alloc(0, 4, 1, GPUPEAK_KIND_LINEAR, 0, 100, api, a);
  log.device_alloc(1, 5, 2, GPUPEAK_KIND_LINEAR, 0, 10, api);
  const TemporaryFile file;
  log.save(file.path());
  for (const char* name :
       {"site", "function", "line", "file", "module", "phase", "kind", "thread", "ip"}) {
    for (const size_t top : {0, 1, 100}) {
      Options options;
      options.by = parse_group_by(name);
      options.top = top;
      const Summary summary = analyze(file.path(), options);
      CHECK(summary.peaks.size() == 5);
      for (const Peak& peak : summary.peaks) {
        INFO(name << " " << top << " " << peak.scope);
        CHECK(peak.holders.size() <= top);
        uint64_t sum = peak.other_bytes;
        for (const Holder& holder : peak.holders) sum += holder.bytes;
        CHECK(sum == peak.bytes);
      }
    }
  }
  CHECK_THROWS_AS(parse_group_by("colour"), UsageError);
}
