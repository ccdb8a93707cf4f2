// What a framework's arena of one device was asked for, in its order, with what all others had of
// the device then: so that it can be asked what would have become of it with less memory. Only
// where the rules of its ArenaModel give each block the very address that it had is the history
// good for that; anything else (other streams, graphs' arenas, settings, other releases' rules)
// shows in an address sooner or later, and `why_not()` says so. NeedWatch fills it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "collector/fit/arena_model.h"

namespace gpupeak::collector {

/// Whether a mix of the most and the least that a block may have asked for takes the most of it.
inline bool is_high_in_mix(uint64_t block, unsigned mix) {
  uint64_t mixed = (block + 1) * UINT64_C(0x9e3779b97f4a7c15) + mix;
  mixed = (mixed ^ mixed >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
  return (mixed >> 40 & 1) != 0;
}

class ArenaRequests {
 public:
  enum class What : uint8_t {
    kGive,     ///< a request of `bytes`, or, where the log does not tell, up to `slack` less
    kTake,     ///< of the block
    kGiveOwn,  ///< a request of `bytes` got a segment of its own
    kTakeOwn,  ///< of `bytes`
    kEndRun,   ///< what was a stream's is no longer
    kEmpty,    ///< all idle segments go back, as the program asked for
    kOutside   ///< so much is not this arena's from here on
  };
  struct Step {
    uint64_t bytes = 0;
    uint32_t block = 0;  ///< numbered in the order in which they were given
    uint32_t slack = 0;
    uint32_t likely = 0;  ///< so much less is what other requests of its site asked for; 0: none did
    What what = What::kGive;
    bool on_stream = false;  ///< ArenaModel::Request
  };
  /// Of a longer one nothing is asked.
  static constexpr size_t kMostSteps = 4'000'000;

  explicit ArenaRequests(std::unique_ptr<ArenaModel> model) : model_(std::move(model)) {}

  // The driver, for the arena.
  void segment_taken(uint64_t address, uint64_t bytes);
  void segment_given_back(uint64_t address, uint64_t bytes);
  // The arena.
  /// `asked`: what the request asked for; 0: not known. `site`: those of one site are alike.
  void given(uint64_t address, uint64_t bytes, uint64_t asked = 0, uint32_t site = 0);
  /// Requests from here on are for a stream's work, until the run ends. Two at once: given up.
  void begin_run();
  void end_run();
  void taken(uint64_t address);
  /// What others have handed out of the device, without the driver's own.
  void others_have(uint64_t bytes);
  /// The driver's own was no more than that since the last reading.
  void driver_had(uint64_t bytes);
  /// For an instant others and the driver itself had so much.
  void at_once(uint64_t bytes);
  /// `start`: what the process had of the device before the first context.
  void finish(uint64_t start);
  /// Nothing can be said of it, and nothing of it is kept.
  void give_up(std::string why);

  /// The rules by which it went, as at its start.
  std::unique_ptr<ArenaModel> rules() const { return model_->fresh(); }
  /// The driver's memory that is the arena's now, in whole pages.
  uint64_t reserved() const { return reserved_; }
  /// Empty: the rules give every block the address that it had.
  const std::string& why_not() const { return why_not_; }
  uint64_t requests() const { return blocks_; }
  /// Whether the log tells of each request how much it asked for.
  bool knows_all_requests() const { return knows_all_; }
  /// How many of the first of them the rules give the address that they had.
  uint64_t repeated() const { return repeated_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// Where the segment lay that was taken for a block; 0: none was.
  uint64_t segment_of(uint32_t block) const {
    const auto segment = segments_.find(block);
    return segment == segments_.end() ? 0 : segment->second;
  }

 private:
  /// A segment that the driver gave, and nothing of it was given yet.
  struct Fresh {
    uint64_t address = 0, bytes = 0;
  };
  struct Live {
    uint32_t block;
    ArenaModel::Piece piece;
    uint64_t own;  // bytes of a segment of its own; 0: it has none
  };
  bool repeats(uint64_t address, uint64_t bytes, uint64_t asked, Step& step);
  bool is_own(uint64_t address, uint64_t bytes) const;
  bool give_own(Step& step);
  void add(const Step& step);
  void find_likely();

  std::unique_ptr<ArenaModel> model_;
  Fresh fresh_;
  std::unordered_set<uint64_t> own_;  // addresses of segments for one block
  bool emptying_ = false, running_ = false;
  std::unordered_map<uint64_t, Live> live_;  // by address
  std::unordered_map<uint32_t, uint64_t> segments_;
  std::vector<Step> steps_;
  std::vector<uint32_t> sites_;  // by block, until it is finished
  std::vector<size_t> open_;  // steps since the last reading, without the driver's own yet
  uint64_t others_ = 0;
  uint64_t reserved_ = 0, repeated_ = 0;
  uint32_t blocks_ = 0;
  bool knows_all_ = true;
  std::string why_not_;
};

}  // namespace gpupeak::collector
