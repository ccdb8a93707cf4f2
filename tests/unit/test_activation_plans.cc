// What lies in the piece of memory that a run of an ONNX model asks for, for all its activations.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/log/log_reader.h"
#include "collector/log/onnx_runtime.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// The same rule by a map of what is taken: the smallest gap between two, else behind the last.
class Book {
 public:
  void allocate(size_t request, uint64_t bytes) {
    bytes = (bytes + 255) & ~uint64_t{255};
    uint64_t best = end(), left = UINT64_MAX, from = 0;
    for (const auto& [offset, taken] : taken_) {
      const uint64_t gap = offset - from;
      if (gap >= bytes && gap - bytes < left) {
        left = gap - bytes;
        best = from;
      }
      from = offset + taken.first;
    }
    taken_[best] = {bytes, request};
    if (best + bytes <= most_) return;
    most_ = best + bytes;
    at_most_ = taken_;
  }
  void free(size_t request) {
    std::erase_if(taken_, [&](const auto& part) { return part.second.second == request; });
  }
  uint64_t most() const { return most_; }
  std::vector<MemoryPattern::Part> parts() const {
    std::vector<MemoryPattern::Part> parts;
    for (const auto& [offset, part] : at_most_) parts.push_back({offset, part.first, part.second});
    return parts;
  }

 private:
  uint64_t end() const {
    return taken_.empty() ? 0 : taken_.rbegin()->first + taken_.rbegin()->second.first;
  }
  std::map<uint64_t, std::pair<uint64_t, size_t>> taken_, at_most_;
  uint64_t most_ = 0;
};

/// A session's runs: at each door (an instruction that asks) blocks of the arena come and go.
class Session {
 public:
  Session() {
    name_ = log.string("ONNX Runtime");
    run_ = log.string("run");
    log.event(0, ++time_, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(name_).u(0).u(0).s("").u(1));
    log.device_alloc(0, ++time_, 100, GPUPEAK_KIND_LINEAR, 0, 64 << 20);  // at 100 MiB
  }
  uint32_t stack(uint64_t caller, uint64_t door) { return log.node(log.node(0, caller), door); }
  void begin() {
    log.event(0, ++time_, GPUPEAK_REC_PHASE_PUSH,
              Fields().u(0).u(GPUPEAK_PHASE_ORT).u(run_).u(1).u(0).s(""));
  }
  void end() {
    log.event(0, ++time_, GPUPEAK_REC_PHASE_POP, Fields().u(0).u(GPUPEAK_PHASE_ORT).u(1));
  }
  uint64_t ask(uint32_t by, uint64_t bytes) {
    const uint64_t at = (100 << 20) + (next_ += 1 << 20);
    log.event(0, ++time_, GPUPEAK_REC_ARENA_ALLOC,
              Fields().u(1).u(at).u((bytes + 255) / 256 * 256).u(0).u(by).u(0).u(0).u(bytes));
    return at;
  }
  void give(uint64_t at) {
    log.event(0, ++time_, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(at).u(0).u(0).u(0));
  }

  LogBuilder log{GPUPEAK_HOST_OFF};

 private:
  uint32_t name_ = 0, run_ = 0;
  uint64_t time_ = 1, next_ = 0;
};

struct Asked {
  uint64_t piece = 1792;        // of the second run
  uint64_t piece_door = 0x900;  // by which it asks
  bool again = false;           // the second run asks for the activations, too
  bool outputs = false;         // both runs ask for one more by the same door, of a size like one
  bool workspaces = false;      // the first run asks by another door, too
  uint64_t asks_second = 512;
};

/// Of the second run's piece, which the arena has rounded up: "offset bytes by whom, name".
std::vector<std::string> parts(const Asked& asked, Summary* summary = nullptr) {
  Session session;
  const uint32_t conv = session.stack(0x100, 0x800), pool = session.stack(0x200, 0x800);
  const uint32_t scratch = session.stack(0x100, 0x700), whole = session.stack(0, asked.piece_door);
  session.begin();
  const uint64_t one = session.ask(conv, 500);
  const uint64_t two = session.ask(pool, asked.asks_second);
  const uint64_t space = asked.workspaces ? session.ask(scratch, 9000) : 0;
  if (asked.workspaces) session.give(space);
  session.give(one);
  const uint64_t three = session.ask(conv, 768);
  const uint64_t four = asked.outputs ? session.ask(pool, 512) : 0;
  session.give(two);
  session.give(three);
  if (asked.outputs) session.give(four);
  session.end();
  session.begin();
  const uint64_t piece = session.ask(whole, asked.piece);
  const uint64_t output = asked.outputs ? session.ask(pool, 512) : 0;
  const uint64_t same = asked.again ? session.ask(conv, 768) : 0;
  if (asked.again) session.give(same);
  if (asked.outputs) session.give(output);
  session.give(piece);
  session.end();
  const TemporaryFile file;
  session.log.save(file.path());
  const LogReader reader(file.path());
  ArenaAllocEvent block{};
  block.arena = 1;
  block.stack = whole;
  block.asked = asked.piece;
  block.bytes = (asked.piece + 255) / 256 * 256 + 256;
  std::vector<std::string> found;
  const auto& nodes = reader.definitions().nodes();
  for (const BlockPart& part : reader.activation_plans().parts_of(block)) {
    const ModelFrame* frame = reader.definitions().model_frame(nodes[part.stack]);
    REQUIRE(frame != nullptr);
    const uint32_t by = nodes[part.stack].parent;
    const std::string who = by == conv ? "conv" : by == pool ? "pool" : by == whole ? "run" : "?";
    const uint64_t bytes = std::min(part.bytes, block.bytes - part.offset);
    if (bytes > 0)
      found.push_back(fmt::format("{} {} {}, {}", part.offset, bytes, who, frame->function));
  }
  if (summary != nullptr) *summary = analyze(file.path(), {});
  return found;
}

const std::vector<std::string> kNothing;
// The first Conv's 512 bytes had gone when the second one came, too large for the gap.
const std::vector<std::string> kParts{
    "0 512 run, between planned activations", "512 512 pool, planned activation",
    "1024 768 conv, planned activation", "1792 256 run, given beyond planned activations"};

}  // namespace

TEST_CASE("memory pattern: as a book of its own has it, whatever comes and goes", "[collector]") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    MemoryPattern pattern;
    Book book;
    std::vector<size_t> live;
    for (size_t request = 0; request < 60; ++request) {
      const uint64_t bytes = 1 + random() % 5000;
      pattern.allocate(request, bytes);
      book.allocate(request, bytes);
      live.push_back(request);
      while (!live.empty() && random() % 2 == 0) {
        const size_t gone = random() % live.size();
        pattern.free(live[gone]);
        book.free(live[gone]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(gone));
      }
    }
    REQUIRE(pattern.bytes() == book.most());
    REQUIRE(pattern.highest() == book.parts());
  }
}

TEST_CASE("memory pattern: what asks for nothing has no place", "[collector]") {
  MemoryPattern pattern;
  pattern.allocate(0, 0);
  CHECK(pattern.bytes() == 0);
  pattern.allocate(1, UINT64_MAX);
  CHECK(pattern.bytes() == 0);
  pattern.allocate(2, 1);
  CHECK(pattern.bytes() == 256);
}

TEST_CASE(
    "activation plans: a piece of the size that the first run's requests come to is shared out to "
    "them",
    "[collector]") {
  CHECK(parts({}) == kParts);
  CHECK(parts({.workspaces = true}) == kParts);
  CHECK(parts({.outputs = true}) == kParts);
}

TEST_CASE("activation plans: of another piece nothing is said", "[collector]") {
  CHECK(parts({.piece = 1536}) == kNothing);
  CHECK(parts({.piece = 1791}) == kNothing);
  CHECK(parts({.piece = 2048}) == kNothing);
  CHECK(parts({.asks_second = 1024}) == kNothing);
  // Asked for where the first run asked, too; or by a run that asks for the activations again.
  CHECK(parts({.piece_door = 0x700, .workspaces = true}) == kNothing);
  CHECK(parts({.again = true}) == kNothing);
}

TEST_CASE("activation plans: the parts are rows of the peak, and add up", "[collector]") {
  Summary summary;
  parts({}, &summary);
  REQUIRE(summary.arenas.size() == 1);
  const ArenaSummary& arena = summary.arenas[0];
  CHECK(arena.at_peak.in_use_bytes == 1792);
  CHECK(arena.alloc_count == 4);
  uint64_t planned = 0, all = 0;
  for (const auto& part : arena.parts) {
    all += part.bytes;
    if (part.title.starts_with("planned activation")) planned += part.bytes;
  }
  CHECK(planned == 1280);
  CHECK(all == 1792);
  CHECK(arena.live_bytes == 0);
}
