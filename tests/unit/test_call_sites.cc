// Programs without debug information: rows by which call of a function it is.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/analyze/call_tree.h"
#include "collector/log/definitions.h"
#include "collector/log/symbol_table.h"
#include "collector/summary/diff.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kBase = 0x400000;

/// A program whose functions have names, and lines only where a test gives them.
class Program {
 public:
  Program() : log(GPUPEAK_HOST_FULL) {
    module_.path = "/nowhere/bench";
    module_.build_id = "id";
    log.module(module_.path, module_.build_id, kBase, kBase, 0x10000);
    log.device(0, uint64_t{80} << 30, std::string(16, '\1'), "Test GPU");
  }
  /// A stack that ends with the call at `offset` of a function.
  uint32_t call(uint64_t offset, const char* function = "main", uint32_t caller = 0, int line = 0) {
    symbols_.add(module_, offset - 1, {{function, line > 0 ? "bench.cu" : "", line}});
    return log.node(caller, kBase + offset);
  }
  void take(uint64_t mib, uint32_t stack, uint32_t kind = GPUPEAK_KIND_LINEAR) {
    ++blocks_;
    log.device_alloc(0, blocks_, blocks_, kind, 0, mib * kMiB, 0, stack);
  }
  std::string save(const TemporaryFile& file) {
    std::ofstream(file.path() + kSymbolsSuffix) << symbols_.json(log.header().cookie);
    return log.save(file.path());
  }
  Summary summary(GroupBy by = GroupBy::kSite) {
    const TemporaryFile file;
    Options options;
    options.by = by;
    const Summary made = analyze(save(file), options);
    remove((file.path() + kSymbolsSuffix).c_str());
    return made;
  }

  LogBuilder log;

 private:
  Module module_;
  SymbolTable symbols_;
  uint64_t blocks_ = 0;
};

std::string rows(const Summary& summary, const std::string& scope = "device:0") {
  const Peak* peak = summary.find_peak(scope);
  if (peak == nullptr) return "no peak";
  std::string text;
  uint64_t sum = peak->other_bytes;
  for (const Holder& row : peak->holders) {
    text += fmt::format("{} {}\n", row.bytes / kMiB, row.title);
    sum += row.bytes;
  }
  CHECK(sum == peak->bytes);
  return text;
}

Program four_buffers() {
  Program program;
  program.take(100, program.call(0x13a1));
  program.take(300, program.call(0x13c7));
  const uint32_t loop = program.call(0x140e);
  for (int i = 0; i < 4; ++i) program.take(10, loop);
  program.take(200, program.call(0x1390));
  return program;
}

}  // namespace

TEST_CASE("call sites: without lines, a function's calls are rows in the order of its code",
          "[collector]") {
  Program program = four_buffers();
  CHECK(rows(program.summary()) ==
        "300 3rd buffer of main (+0x13c7)\n"
        "200 1st buffer of main (+0x1390)\n"
        "100 2nd buffer of main (+0x13a1)\n"
        "40 4th call in main (+0x140e)\n");
  const Summary by_line = program.summary(GroupBy::kLine);
  CHECK(rows(by_line).starts_with("300 3rd buffer of main (+0x13c7)\n"));
  CHECK(rows(program.summary(GroupBy::kFunction)) == "640 main\n");
}

TEST_CASE(
    "call sites: what the driver maps in a buffer's call makes it no second one, nor a call "
    "of its own before the buffers",
    "[collector]") {
  Program program;
  const auto map = [&](uint64_t time, uint64_t at_mib, uint32_t stack) {
    program.log.map(0, time, at_mib * kMiB, kMiB, 3, GPUPEAK_KIND_DRIVER, stack);
  };
  map(0, 1, program.call(0x1380));
  program.take(100, program.call(0x13a1));
  map(1, 2, program.call(0x13a1));
  map(1, 3, program.call(0x13a1));
  program.take(100, program.call(0x13c7));
  CHECK(rows(program.summary()) ==
        "100 1st buffer of main (+0x13a1)\n100 2nd buffer of main (+0x13c7)\n");
}

TEST_CASE("call sites: a function that hides one large call stays a row", "[collector]") {
  Program program;
  program.take(100, program.call(0x13a1));
  program.take(4, program.call(0x13c7));
  program.take(4, program.call(0x13d7));
  CHECK(rows(program.summary()) == "108 main\n");
}

TEST_CASE("call sites: with lines it is the line, however many calls it became", "[collector]") {
  Program program;
  program.take(100, program.call(0x13a1, "main", 0, 7));
  program.take(100, program.call(0x13c7, "main", 0, 7));
  program.take(100, program.call(0x13e7, "main", 0, 9));
  CHECK(rows(program.summary()) == "200 main bench.cu:7\n100 main bench.cu:9\n");
}

TEST_CASE("call sites: of a helper it is its callers that tell", "[collector]") {
  Program program;
  for (const uint64_t caller : {0x13a1, 0x13c7})
    program.take(100, program.call(0x1201, "_Z5floatm", program.call(caller)));
  CHECK(rows(program.summary()) ==
        "100 float ← 1st call in main (+0x13a1)\n100 float ← 2nd call in main (+0x13c7)\n");
  const std::string by_ip = rows(program.summary(GroupBy::kIp));
  CHECK(by_ip.find("main bench+0x13c7") != std::string::npos);
}

TEST_CASE("call sites: each kind of memory has its own rows, and small heap blocks stay together",
          "[collector]") {
  Program program;
  for (const uint32_t kind :
       {GPUPEAK_KIND_PINNED, GPUPEAK_KIND_MANAGED, GPUPEAK_KIND_ARRAY, GPUPEAK_KIND_LINEAR}) {
    program.take(10, program.call(0x1000 + kind * 0x100), kind);
    program.take(10, program.call(0x1010 + kind * 0x100), kind);
  }
  Program small;
  for (uint64_t i = 0; i < 2; ++i) {
    small.log.alloc(0, 100 + i, 0x1000 * (i + 1), 512, small.call(0x5000 + i, "read_options"));
    program.log.alloc(0, 110 + i, kMiB * 64 * (i + 1), 20 * kMiB,
                      program.call(0x6000 + i, "read_input"));
  }
  const Summary summary = program.summary();
  const std::string arrays = rows(summary, "device:0/array");
  CHECK(arrays.find(fmt::format(" main (+{:#x})", 0x1000 + GPUPEAK_KIND_ARRAY * 0x100)) !=
        std::string::npos);
  CHECK(arrays.find(fmt::format(" main (+{:#x})", 0x1010 + GPUPEAK_KIND_ARRAY * 0x100)) !=
        std::string::npos);
  CHECK(rows(summary, "host/pinned").find(" main (+") != std::string::npos);
  CHECK(rows(summary, "device:0/managed").find(" main (+") != std::string::npos);
  CHECK(rows(summary, "host/heap") ==
        "20 1st buffer of read_input (+0x6000)\n20 2nd buffer of read_input (+0x6001)\n");
  CHECK(rows(small.summary(), "host/heap") == "0 read_options\n");
}

TEST_CASE("call sites: a tree has a call each, and its sums hold", "[collector]") {
  Program program = four_buffers();
  const TemporaryFile file;
  Profile profile(program.save(file));
  const CallTree tree(profile, profile.at_peak(profile.scope("device:0")),
                      CallTree::Order::kFromOutermost);
  CHECK(tree.root().bytes == 640 * kMiB);
  REQUIRE(tree.root().children.size() == 4);
  CHECK(CallTree::title(tree.node(tree.root().children[0])) == "3rd buffer of main (+0x13c7)");
  CHECK(profile.sites().site_title(profile.replay().sites().info(GroupId{0}).stack) ==
        "2nd buffer of main (+0x13a1)");
  remove((file.path() + kSymbolsSuffix).c_str());
}

TEST_CASE("call sites: builds whose code has moved are matched by size, or by order if all grew",
          "[collector]") {
  const auto built = [](uint64_t moved, const std::vector<uint64_t>& sizes) {
    Program program;
    uint64_t at = 0x1390 + moved;
    for (const uint64_t mib : sizes) program.take(mib, program.call(at += 0x20));
    return program.summary();
  };
  const auto changes = [](const Summary& a, const Summary& b) {
    std::string text;
    for (const SiteDiff& site : diff_peak(a, b, "device:0").sites)
      text += fmt::format("{} {} {}\n", site.a_bytes / kMiB, site.b_bytes / kMiB, site.title);
    return text;
  };
  const Summary before = built(0, {100, 200, 300});
  CHECK(changes(before, built(0x40, {100, 200, 300})).find(" 0 ") == std::string::npos);
  CHECK(changes(before, built(0x40, {200, 400, 600})) ==
        "300 600 3rd buffer of main (+0x1430)\n200 400 2nd buffer of main (+0x1410)\n"
        "100 200 1st buffer of main (+0x13f0)\n");
  const std::string one_more = changes(before, built(0x40, {50, 100, 200, 300}));
  CHECK(one_more.starts_with("0 50 1st buffer of main (+0x13f0)\n"));
  CHECK(one_more.find("300 300 4th buffer") != std::string::npos);
}

TEST_CASE("call sites: buffers of two builds are matched by their role before their size",
          "[collector]") {
  const auto row = [](uint32_t call, uint64_t bytes, const char* kernel) {
    Holder holder;
    holder.bytes = bytes;
    holder.parts.resize(1);
    holder.parts[0].frame.call = call;
    holder.role.emplace().kernels.emplace_back().name = kernel;
    return holder;
  };
  const Holder in = row(1, 10, "a"), out = row(2, 20, "b"), added = row(1, 20, "c"),
               in_now = row(2, 20, "a"), out_now = row(3, 10, "b");
  const auto matched = match_calls({&in, &out}, {&added, &in_now, &out_now});
  CHECK(matched == std::vector<std::pair<size_t, size_t>>{{0, 1}, {1, 2}});
}
