// The history of one arena on one device: all its requests in their order, and what everybody else
// had of the device meanwhile. With it one can simulate the run with less memory. That is only
// right if the rules of the ArenaModel give each block the very address that it had. What the rules
// do not know (other streams, graphs' arenas, settings, other releases) shows in an address sooner
// or later, and `why_not()` says so. NeedWatch fills the history.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "collector/fit/arena_model.h"

namespace gpupeak::collector {

/// In a mix of largest and smallest sizes: whether this block has the largest size that it may have
/// asked for.
inline bool is_high_in_mix(uint64_t block, unsigned mix) {
  uint64_t mixed = (block + 1) * UINT64_C(0x9e3779b97f4a7c15) + mix;
  mixed = (mixed ^ mixed >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
  return (mixed >> 40 & 1) != 0;
}

class ArenaRequests {
 public:
  enum class What : uint8_t {
    kGive,     ///< a request of `bytes`; if the log does not tell its size, of up to `slack` less
    kTake,     ///< `block` comes back
    kGiveOwn,  ///< a request of `bytes` got a segment of its own
    kTakeOwn,  ///< a segment of its own, of `bytes`, goes back
    kEndRun,   ///< memory that was one stream's is free for all
    kEmpty,    ///< the program asked for all idle segments to go back
    kOutside   ///< from here on `bytes` of the device are not this arena's
  };
  struct Step {
    uint64_t bytes = 0;
    uint32_t block = 0;  ///< numbered in the order in which they were given
    uint32_t slack = 0;
    /// `bytes` less this is what other requests of its site asked for; 0: not known.
    uint32_t likely = 0;
    What what = What::kGive;
    bool on_stream = false;  ///< ArenaModel::Request
  };
  /// A longer history is given up.
  static constexpr size_t kMostSteps = 4'000'000;

  explicit ArenaRequests(std::unique_ptr<ArenaModel> model) : model_(std::move(model)) {}

  // What the driver does for the arena.
  void segment_taken(uint64_t address, uint64_t bytes);
  void segment_given_back(uint64_t address, uint64_t bytes);
  // What the arena does.
  /// `asked`: bytes that the request asked for; 0: not known. `site`: requests of one site are
  /// taken to be alike.
  void given(uint64_t address, uint64_t bytes, uint64_t asked = 0, uint32_t site = 0);
  /// Requests from here on are for a stream's work, until the run ends. If two runs overlap, the
  /// history is given up.
  void begin_run();
  void end_run();
  void taken(uint64_t address);
  /// Bytes of the device that are handed out to others, without the driver's own.
  void others_have(uint64_t bytes);
  /// The driver's own memory was no more than this since the last reading.
  void driver_had(uint64_t bytes);
  /// Others and the driver itself had so much for an instant.
  void at_once(uint64_t bytes);
  /// `start`: what the process had of the device before the first context.
  void finish(uint64_t start);
  /// Gives the history up, and frees it.
  void give_up(std::string why);

  /// A model with the rules by which the arena went, for which nothing was asked yet.
  std::unique_ptr<ArenaModel> rules() const { return model_->fresh(); }
  /// Bytes of the driver's memory that the arena has now, in whole pages.
  uint64_t reserved() const { return reserved_; }
  /// Empty: the rules give every block the address that it had.
  const std::string& why_not() const { return why_not_; }
  uint64_t requests() const { return blocks_; }
  /// Whether the log tells of each request how much it asked for.
  bool knows_all_requests() const { return knows_all_; }
  /// How many requests, from the first one on, get the address from the rules that they had.
  uint64_t repeated() const { return repeated_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// Address of the segment that was taken for a block; 0: none was.
  uint64_t segment_of(uint32_t block) const {
    const auto segment = segments_.find(block);
    return segment == segments_.end() ? 0 : segment->second;
  }

 private:
  /// A segment from the driver of which nothing was handed out yet.
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
  std::vector<size_t> open_;     // steps since the last reading, without the driver's own yet
  uint64_t others_ = 0;
  uint64_t reserved_ = 0, repeated_ = 0;
  uint32_t blocks_ = 0;
  bool knows_all_ = true;
  std::string why_not_;
};

}  // namespace gpupeak::collector
