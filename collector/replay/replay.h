// Replays the events of a log in one pass, with memory O(live blocks + sites). It gives each event
// to the part that it concerns, and gives access to all parts:
//
//                    ┌ HeapReplay      blocks, reallocs, samples ┐
//   event ─ Replay ──┼ MappingTable    mmap and its like         ├─ LiveMemory ─ PeakFinder
//                    ├ DeviceReplay    the driver's blocks       ┘       └ ReplayObserver
//                    ├ AllocationContext   threads, phases, rules, tags
//                    ├ GrowthTable     what sites held at the ends of repeated phases
//                    └ ArenaTable      what sub-allocators have in use and idle of heap and device
//
// analyze() runs one and builds the summary from it. Views and exports read it, or observe it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/log/slot_decoder.h"
#include "collector/replay/allocation_context.h"
#include "collector/replay/arena_table.h"
#include "collector/replay/device_replay.h"
#include "collector/replay/live_blocks.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/peak_finder.h"
#include "collector/replay/replay_observer.h"
#include "collector/replay/troubles.h"
#include "gpupeak/log_format.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {

// The process's mappings as intervals, and what each change of them means for the sums. Unmapping a
// part of a mapping splits it; mapping over it replaces it; taking all access to anonymous memory
// away leaves only addresses, which do not count. Replay keeps one. Each operation gives the parts
// of one step for PeakFinder.

class MappingTable {
 public:
  using Changes = std::vector<PeakFinder::Change>;
  /// The group of memory of `kind` that the current call maps.
  using GroupOf = std::function<GroupId(uint8_t kind)>;

  /// Maps a range. Sizes are rounded up to 4 KiB. Each operation appends to `changes`.
  void map(uint64_t address, uint64_t bytes, uint32_t prot, uint8_t kind, GroupId group,
           Changes& changes) {
    const uint64_t end = address + whole_pages(bytes);
    if (end <= address) return;
    unmap(address, bytes, changes);
    const Mapping mapping{end, prot, group, kind};
    mappings_.emplace(address, mapping);
    count(address, mapping, +1, true, changes);
  }
  void unmap(uint64_t address, uint64_t bytes, Changes& changes) {
    remove(address, bytes, changes,
           [&](const auto& piece) { count(piece.first, piece.second, -1, false, changes); });
  }
  /// The same as the slot's last call that takes mappings away, which take_back() undoes.
  void unmap(uint32_t slot, uint64_t address, uint64_t bytes, Changes& changes) {
    take(slot, address, bytes, false, changes);
  }
  /// Changes the protection of a range. False: nothing was done, since a damaged log protects very
  /// many mappings again and again (kMostMappings).
  bool protect(uint64_t address, uint64_t bytes, uint32_t prot, Changes& changes) {
    const uint64_t end = address + whole_pages(bytes);
    if (end <= address) return true;
    if (protected_ > kMostMappings) return false;
    split_at(address, changes);
    split_at(end, changes);
    uint64_t count_of_mappings = 0;
    for (auto it = mappings_.lower_bound(address); it != mappings_.end() && it->first < end; ++it) {
      ++count_of_mappings;
      const bool commits = it->second.prot == 0 && prot != 0;
      count(it->first, it->second, -1, false, changes);
      it->second.rests =
          prot == 0 &&
          (it->second.rests || (it->second.prot != 0 && it->second.kind == GPUPEAK_KIND_MMAP_ANON));
      it->second.prot = prot;
      count(it->first, it->second, +1, commits, changes);
    }
    for (auto it = mappings_.lower_bound(address); it != mappings_.end() && it->first < end;)
      join_with_previous(it++, changes);
    join_with_previous(mappings_.lower_bound(end), changes);
    protected_ += count_of_mappings - std::min(count_of_mappings, kFewMappings);
    return true;
  }
  /// From here to the slot's remap() or take_back(), what lies there still counts but has no
  /// addresses: another mapping may be given them before the move is logged.
  void remap_begins(uint32_t slot, uint64_t address, uint64_t bytes, Changes& changes) {
    take(slot, address, bytes, true, changes);
  }
  /// The kernel refused what the slot did last, an unmap() or remap_begins() of that range: what
  /// lay there lies there again.
  void take_back(uint32_t slot, uint64_t address, uint64_t bytes, Changes& changes) {
    const auto found = taken_.find(slot);
    if (found == taken_.end()) return;
    if (found->second.address != address || found->second.bytes != bytes) return;  // that is lost
    const Taken taken = std::move(found->second);
    taken_.erase(found);
    put_back(taken, changes);
  }
  struct Move {
    uint64_t old_address, old_bytes, new_address, new_bytes;
  };
  /// Moves a range. The new range has the kind and protection of the first mapping of the old one.
  /// What was never seen mapped stays unseen. Without remap_begins(), as in older logs, the old
  /// range is what lies there now. `old_bytes` 0: it stays.
  void remap(uint32_t slot, const Move& move, const GroupOf& group_of, Changes& changes) {
    if (const auto taken = taken_.find(slot); taken != taken_.end() && taken->second.moves) {
      const auto pieces = std::move(taken->second.pieces);
      taken_.erase(taken);
      if (pieces.empty()) return;
      for (const auto& [begin, mapping] : pieces) count(begin, mapping, -1, false, changes);
      const Mapping& old = pieces.front().second;
      map(move.new_address, move.new_bytes, old.prot, old.kind, group_of(old.kind), changes);
      return;
    }
    auto it = mappings_.upper_bound(move.old_address);
    if (it == mappings_.begin()) return;
    --it;
    if (it->second.end <= move.old_address) return;
    const Mapping old = it->second;
    unmap(move.old_address, move.old_bytes, changes);
    map(move.new_address, move.new_bytes, old.prot, old.kind, group_of(old.kind), changes);
  }

  size_t size() const { return mappings_.size(); }
  /// Calls visit(group, begin, end) for each anonymous mapping that counts.
  template <class Visit>
  void visit(const Visit& visit) const {
    for (const auto& [begin, mapping] : mappings_)
      if (mapping.prot != 0 && mapping.kind == GPUPEAK_KIND_MMAP_ANON)
        visit(mapping.group, begin, mapping.end);
  }
  /// Anonymous mappings that may not be touched any more. Their pages stay until they are unmapped.
  uint64_t resting_bytes() const { return resting_bytes_; }

 private:
  struct Mapping {
    uint64_t end;
    uint32_t prot;
    GroupId group;
    uint8_t kind;
    bool rests = false;  ///< it could be touched before
    bool operator==(const Mapping&) const = default;
  };
  using Map = std::map<uint64_t, Mapping>;  // by start; they never overlap
  /// How many mappings each call may protect, and how many more all calls together may: that takes
  /// a second or two. Real programs protect what they have mapped in one piece.
  static constexpr uint64_t kFewMappings = 64, kMostMappings = UINT64_C(1) << 25;

  /// Memory without any access is only addresses, and does not count.
  void count(uint64_t begin, const Mapping& mapping, int16_t sign, bool allocates,
             Changes& changes) {
    if (mapping.prot == 0) {
      if (mapping.rests) resting_bytes_ += (mapping.end - begin) * static_cast<uint64_t>(sign);
      return;
    }
    changes.push_back(
        {mapping.group, static_cast<int64_t>(mapping.end - begin) * sign, sign, allocates});
  }
  /// Makes `address` a border between two mappings if it lies inside one.
  void split_at(uint64_t address, Changes& changes) {
    auto it = mappings_.upper_bound(address);
    if (it == mappings_.begin()) return;
    --it;
    if (it->first == address || it->second.end <= address) return;
    const Mapping right = it->second;
    count(it->first, it->second, -1, false, changes);
    it->second.end = address;
    count(it->first, it->second, +1, false, changes);
    mappings_.emplace_hint(std::next(it), address, right);
    count(address, right, +1, false, changes);
  }
  /// Removes the mappings of a range, and calls `leave(piece)` for each before.
  template <typename Leave>
  void remove(uint64_t address, uint64_t bytes, Changes& changes, Leave leave) {
    const uint64_t end = address + whole_pages(bytes);
    if (end <= address) return;
    split_at(address, changes);
    split_at(end, changes);
    auto it = mappings_.lower_bound(address);
    while (it != mappings_.end() && it->first < end) {
      leave(*it);
      it = mappings_.erase(it);
    }
  }
  /// Joins two mappings that are alike: an allocator that commits a reserved range step by step
  /// would leave a piece for every step.
  void join_with_previous(Map::iterator it, Changes& changes) {
    if (it == mappings_.begin() || it == mappings_.end()) return;
    const auto before = std::prev(it);
    Mapping joined = before->second;
    if (joined.end != it->first) return;
    joined.end = it->second.end;
    if (joined != it->second) return;
    count(before->first, before->second, -1, false, changes);
    count(it->first, it->second, -1, false, changes);
    count(before->first, joined, +1, false, changes);
    before->second = joined;
    mappings_.erase(it);
  }

  Map mappings_;
  /// What a slot has taken away by its last call.
  struct Taken {
    uint64_t address = 0, bytes = 0;
    bool moves = false;  ///< by remap_begins(): it still counts
    std::vector<Map::value_type> pieces;
  };
  void put_back(const Taken& taken, Changes& changes) {
    for (const auto& [begin, mapping] : taken.pieces) {
      unmap(begin, mapping.end - begin, changes);
      mappings_.emplace(begin, mapping);
      if (!taken.moves) count(begin, mapping, +1, false, changes);
    }
    if (taken.pieces.empty()) return;
    join_with_previous(mappings_.lower_bound(taken.pieces.front().first), changes);
    join_with_previous(mappings_.lower_bound(taken.pieces.back().second.end), changes);
  }
  void take(uint32_t slot, uint64_t address, uint64_t bytes, bool moves, Changes& changes) {
    Taken& taken = taken_[slot];
    if (taken.moves) put_back(taken, changes);  // a remap that never ended: a longjmp left it
    taken.address = address;
    taken.bytes = bytes;
    taken.moves = moves;
    taken.pieces.clear();
    remove(address, bytes, changes, [&](const auto& piece) {
      if (!moves) count(piece.first, piece.second, -1, false, changes);
      taken.pieces.push_back(piece);
    });
  }

  std::map<uint32_t, Taken> taken_;  // by slot
  uint64_t resting_bytes_ = 0;
  uint64_t protected_ = 0;  // mappings protected so far, beyond kFewMappings for each call
};

// The heap's part of a replay: the live blocks, and open reallocs. Every hot record of a log goes
// through take(). BlockMatcher has already found which block each event is about.
//
// A realloc is logged in two halves. The old block counts until the second half, so that the sum
// has no dip. But its address is free from the first half on: another thread may be given it.
//
//   REALLOC_BEGIN a   lies at a: –    old_block a   counted: a
//   (another thread's ALLOC a)        …             counted: a and the new a
//   REALLOC_END b     lies at b: b    –             counted: b, in one step

class HeapReplay {
 public:
  HeapReplay(const LogReader& log, LiveMemory& live, AllocationContext& allocation_context,
             ArenaTable& arenas, ReplayTroubles& troubles)
      : live_(live),
        allocation_context_(allocation_context),
        arenas_(arenas),
        troubles_(troubles),
        slots_(log.slots().size()) {
    if (log.header().host_mode != GPUPEAK_HOST_SAMPLED) return;
    sample_bytes_ = static_cast<double>(std::min(log.header().sample_bytes, kMaxBlockBytes));
    for (Slot& slot : slots_) slot.sample_bytes = sample_bytes_;
  }

  /// Fetches what an event will need; called for any event, some events ahead. It does not ask what
  /// event it is: that would be a branch that the processor guesses wrong.
  void prefetch(const Event& event, Match match) const {
    blocks_.prefetch(match.block());
    if (live_.finds_groups_at_once()) [[unlikely]]
      live_.prefetch({event.stack, slots_[event.slot].context}, match.block());
  }
  void take(const Event& event, Match match) {
    Slot& slot = slots_[event.slot];
    switch (event.tag) {
      case GPUPEAK_REC_ALLOC:
        allocate(slot, event, match);
        break;
      case GPUPEAK_REC_FREE:
        free(event, match);
        break;
      case GPUPEAK_REC_REALLOC_BEGIN:
        realloc_begin(slot, event, match);
        break;
      case GPUPEAK_REC_REALLOC_END:
        realloc_end(slot, event, match);
        break;
      case GPUPEAK_REC_REALLOC_FAILED:
        realloc_failed(slot, match);
        break;
      default:
        break;
    }
  }

  void begin_sampling(uint32_t slot, const SamplingEvent& sampling, uint64_t ticks) {
    slots_[slot].sample_bytes = static_cast<double>(sampling.sample_bytes);
    slots_[slot].whole_bytes = sampling.whole_bytes > 0 ? sampling.whole_bytes : UINT64_MAX;
    slots_[slot].context_valid_for = 0;
    if (sampling.sample_bytes == 0) return;  // all blocks from here on
    sample_bytes_ = slots_[slot].sample_bytes;
    if (!sampled_since_) sampled_since_ = ticks;
  }

  /// The block that an address lies in, if there is one.
  std::optional<Block> block_around(uint64_t address) const { return blocks_.around(address); }
  const LiveBlocks& blocks() const { return blocks_; }
  /// Usable bytes: requested bytes, and the slack.
  const Gauge& usable() const { return usable_; }
  /// The mean of the sample that the log has at its end; 0: it has all blocks.
  uint64_t sample_bytes() const { return static_cast<uint64_t>(sample_bytes_); }
  /// When the log changed from all blocks to a sample; none: it did not.
  std::optional<uint64_t> sampled_since() const { return sampled_since_; }

 private:
  /// What is known of one writer.
  struct Slot {
    ContextId context{};            // context of the heap blocks that its thread allocates
    PeakFinder::Counting counting;  // how groups of that context are counted
    // AllocationContext::version() then; 0: there is no context yet.
    uint64_t context_valid_for = 0;
    double sample_bytes = 0;  // mean of the sample of its blocks; 0: it has all
    // In a sample: blocks of so many bytes and more are all there.
    uint64_t whole_bytes = UINT64_MAX;
    ContextId whole_context{};  // context of such blocks
    PeakFinder::Counting whole_counting;
    bool reallocating = false;
    BlockNumber old_block = kNoBlock;  // during a realloc; kNoBlock: not known
    uint64_t old_address = 0;
  };

  static uint64_t usable_bytes(uint64_t bytes, int64_t slack) {
    return bytes + static_cast<uint64_t>(slack);
  }
  static uint64_t usable_bytes(const Block& block) {
    return usable_bytes(block.bytes, block.slack);
  }

  /// In a Poisson sample by bytes, a block of this size is seen with probability 1 - exp(-bytes /
  /// mean). So a block that was seen stands for its size divided by that probability.
  static uint64_t weight(double sample_bytes, uint64_t bytes) {
    if (sample_bytes <= 0 || bytes == 0) return bytes;
    const auto size = static_cast<double>(bytes);
    const double likely = size / -std::expm1(-size / sample_bytes);
    // A damaged sample size would give more bytes than any block has.
    return static_cast<uint64_t>(std::llround(std::min<double>(likely, kMaxBlockBytes)));
  }
  void allocate(Slot& slot, const Event& event, Match match) {
    if (event.address == 0) {
      ++troubles_.malformed_events;
      return;
    }
    if (match.differs != 0) [[unlikely]]
      end_unseen(match.block());
    live_.count_in(new_block(slot, event, match.block()), event.ticks);
    usable_.set(usable_.current);
  }
  void free(const Event& event, Match match) {
    if (match.block() == kNoBlock) {
      ++troubles_.unknown_heap_frees;
      return;
    }
    if (arenas_.has_heap_blocks()) [[unlikely]]
      arenas_.heap_freed(event.address, event.ticks);
    const Block block = blocks_.block(match.block());
    blocks_.erase(match.block());
    live_.count_out(counted(match.block(), block), match.differs != 0);
    usable_.current -= usable_bytes(block);
  }
  void realloc_begin(Slot& slot, const Event& event, Match match) {
    if (slot.reallocating) {  // the writer lost its end
      ++troubles_.repairs;
      put_back_old_block(slot, match);
    }
    slot.reallocating = true;
    slot.old_block = match.block();
    if (match.block() == kNoBlock) {
      ++troubles_.unknown_heap_frees;
      return;
    }
    if (arenas_.has_heap_blocks()) arenas_.heap_freed(event.address, event.ticks);
    // It counts until the end of the realloc, but its address may be handed out before.
    slot.old_address = event.address;
    blocks_.move_away(match.block());
  }
  void realloc_end(Slot& slot, const Event& event, Match match) {
    const bool begun = slot.reallocating;
    slot.reallocating = false;
    if (!begun) ++troubles_.repairs;
    if (begun && event.address == 0) put_back_old_block(slot, match);
    const BlockNumber number = std::exchange(slot.old_block, kNoBlock);
    if (!begun || number == kNoBlock || event.address == 0) return allocate(slot, event, match);
    const Block old = blocks_.block(number);
    blocks_.erase(number);
    usable_.current -= usable_bytes(old);
    if (match.differs != 0) end_unseen(match.block());
    const PeakFinder::NewBlock fresh = new_block(slot, event, match.block());
    live_.replace(counted(number, old), fresh, event.ticks);
    usable_.set(usable_.current);
  }
  void realloc_failed(Slot& slot, Match match) {
    if (!slot.reallocating) {
      ++troubles_.repairs;
      return;
    }
    slot.reallocating = false;
    put_back_old_block(slot, match);
    slot.old_block = kNoBlock;
  }
  /// Ends a block that was freed without an event: its address has another block now.
  void end_unseen(BlockNumber number) {
    const Block block = blocks_.block(number);
    ++troubles_.repairs;
    live_.count_out(counted(number, block));
    usable_.current -= usable_bytes(block);
  }
  /// Makes the block and takes its number.
  PeakFinder::NewBlock new_block(Slot& slot, const Event& event, BlockNumber number) {
    allocation_context_.enter_rule(event, event.stack);
    if (slot.context_valid_for != allocation_context_.version()) [[unlikely]]
      renew_context(slot, event);
    const auto slack = static_cast<int32_t>(std::clamp<int64_t>(event.slack, INT32_MIN, INT32_MAX));
    const bool is_whole = event.size >= slot.whole_bytes;
    const ContextId context = is_whole ? slot.whole_context : slot.context;
    const uint64_t bytes = is_whole ? event.size : weight(slot.sample_bytes, event.size);
    const Block block{event.address, bytes, slack, context};
    blocks_.set(number, block);
    usable_.current += usable_bytes(block);
    const Site site{allocation_context_.defined_stack(event.stack), context};
    return {number, block.bytes, site, is_whole ? slot.whole_counting : slot.counting};
  }
  PeakFinder::OldBlock counted(BlockNumber number, const Block& block) const {
    return {number, block.bytes, live_.sites().counting_of(block.context)};
  }
  [[gnu::noinline]] void renew_context(Slot& slot, const Event& event) {
    SiteContext context = allocation_context_.context(event, GPUPEAK_KIND_HEAP);
    slot.whole_context = live_.sites().context(context);
    slot.whole_counting = live_.sites().counting_of(slot.whole_context);
    context.sample_bytes = static_cast<uint64_t>(slot.sample_bytes);
    slot.context = live_.sites().context(context);
    slot.counting = live_.sites().counting_of(slot.context);
    slot.context_valid_for = allocation_context_.version();
  }
  void put_back_old_block(Slot& slot, Match match) {
    if (slot.old_block == kNoBlock) return;
    if (match.differs != 0) {
      end_unseen(slot.old_block);
      blocks_.erase(slot.old_block);
    } else {
      blocks_.move_back(slot.old_block, slot.old_address);
    }
  }

  LiveMemory& live_;
  AllocationContext& allocation_context_;
  ArenaTable& arenas_;  // is told of the end of blocks that arenas share out
  ReplayTroubles& troubles_;
  LiveBlocks blocks_;
  std::vector<Slot> slots_;
  Gauge usable_;
  double sample_bytes_ = 0;  // of the slots that are sampled
  std::optional<uint64_t> sampled_since_;
};

// By how much a program has grown since it was attached to, or within the windows in which its heap
// was recorded. Memory from before is no part of it. But memory from before that is freed counts as
// less: replacing a block by another is no growth.

/// What an attached program has taken of devices since the log began.
class DeviceGrowth {
 public:
  /// `live`: bytes that were allocated since then and are live.
  void set(uint64_t live) {
    live_ = live;
    peak_ = std::max(peak_, bytes());
  }
  void given_back(uint64_t bytes) { given_back_ += bytes; }
  void given_back_unknown() { is_known_ = false; }

  /// False: something from before was freed, and its size is not known.
  bool is_known() const { return is_known_; }
  uint64_t given_back() const { return given_back_; }
  uint64_t bytes() const { return live_ - std::min(live_, given_back_); }
  uint64_t peak() const { return peak_; }

 private:
  uint64_t live_ = 0, given_back_ = 0, peak_ = 0;
  bool is_known_ = true;
};

/// An instant that the program, or somebody outside, marked.
struct Mark {
  uint64_t ticks = 0;
  uint32_t tid = 0;
  uint32_t name = 0;      ///< Replay::name()
  uint32_t category = 0;  ///< string of the log; 0: none
  uint64_t instance = 0;
  uint8_t source = 0;
  uint64_t device_bytes = 0, host_bytes = 0;  ///< live then
};

/// A time of the run in which the heap was recorded.
struct Window {
  uint64_t begin_ticks = 0, end_ticks = 0;
  bool has_ended = false;
  uint64_t before_bytes = 0;  ///< usable bytes that were live when it began and are not in the log
  /// How much of these was freed in it. Not known for a sample: they may be blocks that it left
  /// out.
  uint64_t freed_bytes = 0;
  /// Usable bytes; in an attached program, since the attach.
  int64_t heap_at_begin = 0, heap_at_end = 0;
  uint64_t device_at_begin = 0, device_at_end = 0;  ///< what all devices held
  uint64_t mode = 0;                                ///< enum gpupeak_host_mode
};

class Replay {
 public:
  static constexpr size_t kMaxMarks = 10'000, kMaxWindows = 10'000;

  explicit Replay(const LogReader& log, ReplayObserver* observer = nullptr);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  /// Adds the phases of rules. Call it before run(). `phases` must outlive this.
  void use_phases(const StackPhases& phases) { allocation_context_.use_rules(phases); }
  void run(const Progress& progress);

  const LogReader& log() const { return log_; }
  const PeakFinder& peaks() const { return live_.peaks(); }
  const SiteTable& sites() const { return live_.sites(); }
  /// The sum with this name; an empty one if nothing was ever counted into it.
  const PeakFinder::Scope& sum(const std::string& scope) const { return live_.sum(scope); }
  const PhaseTree& phases() const { return allocation_context_.phases(); }
  const NodePhases& nodes() const { return allocation_context_.nodes(); }
  const HeapReplay& heap() const { return heap_; }
  const DeviceReplay& device() const { return device_; }
  const ArenaTable& arenas() const { return arenas_; }
  const GrowthTable& growth() const { return *growth_; }
  /// The first kMaxMarks.
  const std::vector<Mark>& marks() const { return marks_; }
  uint64_t mark_count() const { return mark_count_; }
  /// The first kMaxWindows.
  const std::vector<Window>& windows() const { return windows_; }
  /// For an attached program.
  const DeviceGrowth& device_growth() const { return device_growth_; }
  const StreamCounts& stream_counts() const { return stream_counts_; }
  const ReplayTroubles& troubles() const { return troubles_; }
  const Gauge& rss() const { return rss_; }
  /// The process's proportional share of resident memory, where it was read.
  const Gauge& pss() const { return pss_; }
  /// What was resident when that was most. rss is 0: nobody looked.
  struct Resident {
    ResidentEvent event{};
    uint64_t resting_bytes = 0;
    /// At the look, and at the sample after it that saw most anonymous memory: that, the heap's
    /// usable bytes and those of the program's anonymous mappings, by the log.
    struct Counted {
      uint64_t anonymous = 0, heap = 0, mapped = 0;
    } then{}, later{};
    uint64_t gpupeaks = 0;  ///< of what is anonymous, which grows, at the last look
    /// What a group's mappings, or blocks of a MiB and more, have of each of the event's places.
    struct InPlaces {
      std::vector<uint64_t> bytes = std::vector<uint64_t>(GPUPEAK_MAX_PLACES);
      uint64_t all = 0, count = 0;  ///< inside and outside of the places
      void add(const InPlaces& other);
      /// At least, at most. Where a place has other owners, too, what is absent may be theirs.
      std::pair<uint64_t, uint64_t> resident(const ResidentEvent& look) const;
    };
    std::map<GroupId, InPlaces> in_places = {};
    /// As far as that is what heap and mappings grew by, these have it: all but what of their
    /// growth was not touched then, whosever it is.
    uint64_t heap_grown() const { return grown(then.heap, later.heap); }
    uint64_t mapped_grown() const { return grown(then.mapped, later.mapped); }
    uint64_t own_bytes() const { return event.own_bytes() + heap_grown() + mapped_grown(); }

   private:
    static uint64_t less(uint64_t a, uint64_t b) { return a - std::min(a, b); }
    uint64_t grown(uint64_t before, uint64_t after) const {
      // Nobody looked; the log has a sample of the heap.
      if (event.rss == 0 || then.heap < event.heap - event.heap / 8) return 0;
      const uint64_t heap = less(later.heap, then.heap), mapped = less(later.mapped, then.mapped);
      const uint64_t more = less(later.anonymous, then.anonymous + gpupeaks - event.own);
      const uint64_t not_known =
          less(heap + mapped, more) + less(then.heap, later.heap) + less(then.mapped, later.mapped);
      return less(less(after, before), not_known);
    }
  };
  const Resident& resident() const { return resident_; }
  /// What was resident and the process's own: the most at any look, and at the look at which most
  /// was resident. rss is 0: nobody looked.
  struct OwnMemory {
    uint64_t most = 0, rss = 0, own = 0;
  };
  /// That at any look or sample: these tell what is neither files' nor shared.
  uint64_t most_own() const {
    const uint64_t anonymous = resident_.later.anonymous;
    return std::max(own_memory_.most, anonymous - std::min(anonymous, resident_.gpupeaks));
  }
  const OwnMemory& own_memory() const { return own_memory_; }
  /// Set if the log has uses of device memory and the process came to its end.
  const std::optional<UsesEndEvent>& uses_end() const { return uses_end_; }
  const Gauge& brk_growth() const { return brk_growth_; }
  const std::map<uint32_t, std::string_view>& thread_names() const { return thread_names_; }
  /// The text of a phase's name or of a tag.
  std::string_view name(uint32_t id) const { return allocation_context_.names().text(id); }
  uint64_t last_ticks() const { return last_ticks_; }

  // For observers: as it is after the latest event.

  /// A scope's sum; 0 if the scope is not known yet. All replays of one log number scopes alike.
  uint64_t current(ScopeId scope) const {
    return scope < peaks().scope_count() ? peaks().scope(scope).current : 0;
  }
  /// The thread whose phases a track has; 0: the process.
  uint32_t thread_of(PhaseTrack track) const {
    return track.of_process ? 0 : allocation_context_.thread_of(track.slot);
  }

 private:
  static constexpr size_t kAhead = 64, kTimesApart = 16;

  template <class After>
  void take_all(std::span<const Event> events, std::span<const uint32_t> notes, const After& after);
  void take_next(const Event& event, uint32_t note) {
    allocation_context_.pass_nodes(event.ticks);
    if (allocation_context_.has_rules() && allocation_context_.turns_to(event.slot)) [[unlikely]]
      return take_of_other_slot(event, note);
    take(event, note);
  }
  void take(const Event& event, uint32_t note) {
    last_ticks_ = event.ticks;
    if (allocation_context_.changes_thread(event)) [[unlikely]]
      allocation_context_.change_thread(event);
    if (is_heap_event(event.tag)) [[likely]]
      return heap_.take(event, std::bit_cast<Match>(note));
    take_extended(event);
  }
  [[gnu::noinline]] void take_of_other_slot(const Event& event, uint32_t note);
  [[gnu::noinline]] void take_extended(const Event& event);
  void finish(const StreamCounts& counts);
  GroupId mapping_group(const Event& event, uint8_t kind, uint32_t stack);

  void note_own(uint64_t rss, uint64_t own);
  void find_owners();

  const LogReader& log_;
  ReplayObserver* const observer_;
  ReplayTroubles troubles_;
  LiveMemory live_;
  AllocationContext allocation_context_;
  ArenaTable arenas_;
  const std::unique_ptr<GrowthTable> growth_;
  HeapReplay heap_;
  DeviceReplay device_;
  MappingTable mappings_;
  MappingTable::Changes changes_;  // of the current event
  std::vector<Mark> marks_;
  uint64_t mark_count_ = 0;
  std::vector<Window> windows_;
  DeviceGrowth device_growth_;
  std::map<uint32_t, std::string_view> thread_names_;
  Gauge rss_, pss_, brk_growth_;
  Resident resident_;
  OwnMemory own_memory_;
  uint64_t looked_at_ = 0;  ///< mappings and large blocks, by all looks
  std::optional<UsesEndEvent> uses_end_;
  uint64_t last_ticks_ = 0;
  StreamCounts stream_counts_;
};

/// A phase's name, with the name of its NVTX domain if it is not the default one.
std::string phase_text(const Replay& replay, const PhaseLabel& label);

}  // namespace gpupeak::collector
