// Which events are about the same block, against maps that are as plain as can be: random histories
// in which calls get lost, so that addresses are handed out again and reallocs never end.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "catch.h"
#include "collector/replay/live_blocks.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint32_t kSlots = 4;

/// A block is the number of the event that made it.
class Model {
 public:
  struct Outcome {
    std::optional<size_t> ends = {}, begins = {};  // blocks
    bool differs = false;
  };

  Outcome take(size_t number, const Event& event) {
    Slot& slot = slots_[event.slot];
    if (slot.tid != event.tid) slot.last.reset();
    slot.tid = event.tid;
    switch (event.tag) {
      case GPUPEAK_REC_ALLOC:
        return make(number, slot, event.address);
      case GPUPEAK_REC_FREE: {
        Outcome outcome{.ends = take_out(event.address)};
        outcome.differs = outcome.ends && slot.last == event.address;
        if (outcome.differs) slot.last.reset();
        if (outcome.ends) alive_.erase(*outcome.ends);
        return outcome;
      }
      case GPUPEAK_REC_REALLOC_BEGIN: {
        const bool lost = put_back(slot);
        slot.old = take_out(event.address);
        slot.old_address = event.address;
        return {.ends = slot.old, .differs = lost};
      }
      case GPUPEAK_REC_REALLOC_END: {
        if (event.address == 0) return {.differs = put_back(slot)};
        if (slot.old) alive_.erase(*slot.old);
        slot.old.reset();
        return make(number, slot, event.address);
      }
      case GPUPEAK_REC_REALLOC_FAILED:
        return {.differs = put_back(slot)};
      default:
        return {};
    }
  }
  /// Blocks that count, at an address or while they are reallocated.
  const std::set<size_t>& alive() const { return alive_; }

 private:
  struct Slot {
    uint32_t tid = 0;
    std::optional<uint64_t> last;
    std::optional<size_t> old;
    uint64_t old_address = 0;
  };

  Outcome make(size_t number, Slot& slot, uint64_t address) {
    if (address == 0) return {};
    slot.last = address;
    const std::optional<size_t> unseen_end = take_out(address);
    if (unseen_end) alive_.erase(*unseen_end);
    live_[address] = number;
    alive_.insert(number);
    return {.begins = number, .differs = unseen_end.has_value()};
  }
  std::optional<size_t> take_out(uint64_t address) {
    const auto found = live_.find(address);
    if (found == live_.end()) return std::nullopt;
    const size_t block = found->second;
    live_.erase(found);
    return block;
  }
  /// Whether it is lost.
  bool put_back(Slot& slot) {
    const std::optional<size_t> old = std::exchange(slot.old, std::nullopt);
    if (!old || live_.try_emplace(slot.old_address, *old).second) return false;
    alive_.erase(*old);
    return true;
  }

  std::map<uint64_t, size_t> live_;  // by address
  std::set<size_t> alive_;
  std::map<uint32_t, Slot> slots_;
};

std::vector<Event> random_history(std::mt19937& random, size_t count, uint64_t addresses,
                                  unsigned reallocs) {
  std::vector<Event> events(count);
  for (Event& event : events) {
    event.slot = random() % kSlots;
    event.tid = random() % 50 == 0 ? 100 + event.slot : 200 + event.slot;
    const uint32_t kind = random() % 100;
    if (kind < reallocs)
      event.tag = static_cast<uint8_t>(GPUPEAK_REC_REALLOC_BEGIN + random() % 3);
    else
      event.tag = kind % 2 == 0 ? GPUPEAK_REC_ALLOC : GPUPEAK_REC_FREE;
    if (random() % 500 == 0) event.tag = GPUPEAK_REC_MAP;
    event.address = 16 * (random() % addresses);  // 0 now and then, too
  }
  return events;
}

void check_history(BlockMatcher& matcher, const std::vector<Event>& events, size_t batch) {
  Model model;
  std::map<BlockNumber, size_t> blocks;  // that the matcher numbers so
  size_t most_alive = 0;
  std::vector<uint32_t> notes(batch);
  for (size_t at = 0; at < events.size(); at += batch) {
    const size_t count = std::min(batch, events.size() - at);
    matcher.pass({&events[at], count}, notes);
    for (size_t i = 0; i < count; ++i) {
      const Match match = std::bit_cast<Match>(notes[i]);
      const Model::Outcome outcome = model.take(at + i, events[at + i]);
      most_alive = std::max(most_alive, model.alive().size());
      REQUIRE((match.differs != 0) == outcome.differs);
      if (outcome.ends) {
        REQUIRE(blocks.at(match.block()) == *outcome.ends);
      } else if (outcome.begins) {
        REQUIRE(match.block() < most_alive);
        const auto numbered = blocks.find(match.block());
        REQUIRE((numbered == blocks.end() || !model.alive().contains(numbered->second)));
        blocks[match.block()] = *outcome.begins;
      } else {
        REQUIRE(match.block() == kNoBlock);
      }
    }
  }
}

}  // namespace

TEST_CASE("block_matcher: agrees with plain maps on random histories", "[collector]") {
  LogBuilder log;
  for (uint32_t slot = 0; slot < kSlots; ++slot) log.alloc(slot, 100, 0x1000, 1);
  const TemporaryFile file;
  log.save(file.path());
  const LogReader reader(file.path());
  std::mt19937 random(1);
  for (const uint64_t addresses : {3, 40, 5'000}) {
    for (const unsigned reallocs : {0, 10, 60}) {
      for (const size_t batch : {1, 7, 2048}) {
        BlockMatcher matcher(reader);
        check_history(matcher, random_history(random, 20'000, addresses, reallocs), batch);
      }
    }
  }
}
