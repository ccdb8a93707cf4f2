// PyTorch's memory snapshot, as torch.cuda.memory._snapshot() gives it. Pickled as the events come,
// with one replay for each device.

#include <algorithm>
#include <concepts>
#include <iterator>
#include <type_traits>
#include <unordered_set>

#include "collector/export/export.h"
#include "collector/replay/replay_observer.h"
#include "collector/summary/site_title.h"
#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

// One device's memory as PyTorch's snapshots have it: segments, which the driver handed out, the
// blocks in them, and the events that led there. Memory of an arena has the arena's blocks,
// wherever they begin and end. All other memory is a segment with one block, since whoever took it
// uses it. Created memory (cuMemCreate) that an arena shares out is a segment where it is mapped.

/// An event, by PyTorch's names.
struct TorchEvent {
  std::string_view action;  ///< "segment_alloc", "alloc" …
  uint64_t address = 0;     ///< for "oom": the bytes that the driver has free
  uint64_t bytes = 0;
  uint32_t stack = 0;
};

struct TorchSegment {
  struct Block {
    uint64_t address = 0, bytes = 0;
    uint32_t stack = 0;
    bool active = false;
  };
  uint64_t address = 0, bytes = 0;
  uint32_t stack = 0;
  bool expandable = false;
  std::vector<Block> blocks;  ///< by address; they fill the segment
};

/// Blocks without an address get one from here on. JavaScript's numbers hold such an address
/// exactly.
constexpr uint64_t kNoAddress = UINT64_C(1) << 48;
constexpr unsigned kNoAddressShift = 24;

/// Writes Python's pickle format, protocol 2, for plain data, with only those instructions that
/// PyTorch's memory_viz page knows.
class Pickle {
 public:
  explicit Pickle(std::ostream& out) : out_(out) { out_ << '\x80' << '\x02'; }

  void pair_end() { out_ << '\x86'; }  ///< makes a tuple of the two values before it
  /// dict("line", 3, "name", "run"): keys and their values. A value that can be called writes
  /// itself.
  template <class... Values>
  void dict(const Values&... values) {
    out_ << "}(";
    (put(values), ...);
    out_ << 'u';
  }
  /// `items` writes them.
  template <class Items>
  void list(const Items& items) {
    out_ << "](";
    items();
    out_ << 'e';
  }

  template <std::invocable Value>
  void put(const Value& value) {
    value();
  }
  void put(std::string_view value) {
    out_ << 'X';
    little_endian(value.size(), 4);
    out_ << value;
  }
  template <std::integral Value>
  void put(Value value) {
    if constexpr (std::is_same_v<Value, bool>) {
      out_ << (value ? '\x88' : '\x89');
    } else if (static_cast<int64_t>(value) == static_cast<int32_t>(value)) {
      out_ << 'J';
      little_endian(static_cast<uint64_t>(value), 4);
    } else {
      out_ << "\x8a\x08";
      little_endian(static_cast<uint64_t>(value), 8);
    }
  }

  /// remember() keeps the value before it under this number, recall() writes it again.
  void remember(uint32_t number) {
    out_ << 'r';
    little_endian(number, 4);
  }
  void recall(uint32_t number) {
    out_ << 'j';
    little_endian(number, 4);
  }
  void end() { out_ << '.'; }

 private:
  void little_endian(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ << static_cast<char>(value >> (8 * i) & 0xff);
  }

  std::ostream& out_;
};

class FramePickler {
 public:
  FramePickler(Profile& profile, Pickle& pickle) : profile_(profile), pickle_(pickle) {}

  /// A stack is written once, and referred to from then on.
  void write(uint32_t stack) {
    const auto [known, added] = lists_.try_emplace(stack, next_);
    if (!added) return pickle_.recall(known->second);
    const uint32_t number = next_++;
    pickle_.list([&] {
      for (const Call& call : profile_.calls_to_write(stack)) write_frame(*call.frame);
    });
    pickle_.remember(number);
  }

 private:
  void write_frame(const Frame& frame) {
    const auto [known, added] = frames_.try_emplace(&frame, next_);
    if (!added) return pickle_.recall(known->second);
    const uint32_t number = next_++;
    pickle_.dict("name", frame_name(frame), "filename",
                 frame.file.empty() ? frame.module : frame.file, "line", frame.line);
    pickle_.remember(number);
  }

  Profile& profile_;
  Pickle& pickle_;
  uint32_t next_ = 0;
  std::map<uint32_t, uint32_t> lists_;
  std::map<const Frame*, uint32_t> frames_;
};

/// Writes the events of one device as a list.
class DeviceTrace : public ReplayObserver {
 public:
  DeviceTrace(const Profile& profile, int32_t device, ScopeId scope, Pickle& pickle,
              FramePickler& frames)
      : profile_(profile),
        device_(device),
        scope_(scope),
        pickle_(pickle),
        frames_(frames),
        shared_out_(profile.replay().arenas().shared_out()) {}

  /// The segments at this moment, by address. Mapped pieces without a gap between them are one
  /// segment.
  std::vector<TorchSegment> segments() const {
    std::vector<TorchSegment> all;
    for (const auto& [address, piece] : pieces_) {
      const bool goes_on = piece.mapped && !all.empty() && all.back().expandable &&
                           all.back().address + all.back().bytes == address;
      if (goes_on) {
        all.back().bytes += piece.bytes;
      } else {
        all.push_back({address, piece.bytes, piece.stack, piece.mapped, {}});
        if (!piece.shared) all.back().blocks.push_back({address, piece.bytes, piece.stack, true});
      }
    }
    for (const auto& [id, created] : unmapped_)
      all.push_back({free_address(0, id), created.bytes, created.stack, true, {}});
    for (TorchSegment& segment : all) {
      if (!segment.blocks.empty()) continue;
      const uint64_t end = segment.address + segment.bytes;
      uint64_t at = segment.address;
      const auto idle_until = [&](uint64_t until) {
        if (until > at) segment.blocks.push_back({at, until - at, 0, false});
        at = std::max(at, until);
      };
      for (auto block = blocks_.lower_bound(segment.address);
           block != blocks_.end() && block->first < end; ++block) {
        idle_until(block->first);
        const uint64_t bytes = std::min(block->second.bytes, end - block->first);
        segment.blocks.push_back({block->first, bytes, block->second.stack, true});
        at = block->first + bytes;
      }
      idle_until(end);
    }
    return all;
  }

 private:
  bool is_of_device(const DeviceBlock& block) const {
    return counts_into(SiteContext{block.alloc.kind, block.alloc.device},
                       profile_.scope_info(scope_));
  }

  // Events of the driver's blocks.
  void on_block_alloc(const DeviceBlock& block) override {
    if (!is_of_device(block)) return;
    const DeviceAllocEvent& alloc = block.alloc;
    const bool shared = shared_out_.contains(alloc.id);
    if (shared && alloc.kind == GPUPEAK_KIND_VMM) {
      unmapped_[alloc.id] = {alloc.bytes, alloc.stack};
      return;
    }
    add(free_address(alloc.address, alloc.id), {alloc.id, alloc.bytes, alloc.stack, shared, false},
        "segment_alloc");
  }
  void on_block_free(const DeviceBlock& block) override {
    if (!is_of_device(block)) return;
    unmapped_.erase(block.alloc.id);
    if (const auto* const place = value_in(places_, block.alloc.id)) remove(pieces_.find(*place));
  }
  void on_mapped(const DeviceMappedEvent& mapped) override {
    const auto created = unmapped_.find(mapped.id);
    if (created == unmapped_.end() || pieces_.contains(mapped.address)) return;
    const auto [bytes, stack] = created->second;
    unmapped_.erase(created);
    add(mapped.address, {mapped.id, bytes, stack, true, true}, "segment_map");
  }
  void on_unmapped(const DeviceUnmappedEvent& unmapped) override {
    auto piece = pieces_.lower_bound(unmapped.address);
    while (piece != pieces_.end() && piece->first < unmapped.address + unmapped.bytes) {
      if (!piece->second.mapped) {
        ++piece;
        continue;
      }
      unmapped_[piece->second.id] = {piece->second.bytes, piece->second.stack};
      piece = remove(piece);
    }
  }
  // Events of arenas' blocks. Blocks that lie in no segment are ignored.
  void on_arena_alloc(const ArenaAllocEvent& given, uint32_t stack) override {
    const auto piece = around(given.address);
    if (piece == pieces_.end()) return;
    if (const auto known = blocks_.find(given.address); known != blocks_.end()) take(known);
    // A damaged log has blocks that do not fit into the piece: they are left out.
    const auto next = blocks_.upper_bound(given.address);
    const bool overlaps = (next != blocks_.end() && next->first < given.address + given.bytes) ||
                          (next != blocks_.begin() &&
                           std::prev(next)->first + std::prev(next)->second.bytes > given.address);
    const bool leaves =
        !piece->second.mapped && given.address + given.bytes > piece->first + piece->second.bytes;
    if (overlaps || leaves || given.bytes == 0) return;
    blocks_[given.address] = {given.arena, given.bytes, stack};
    on_event({"alloc", given.address, given.bytes, stack});
  }
  void on_arena_free(const ArenaFreeEvent& taken) override {
    const auto block = blocks_.find(taken.address);
    if (block != blocks_.end() && block->second.arena == taken.arena) take(block);
  }
  void on_arena(const ArenaEvent& arena) override {
    if (arena.event == GPUPEAK_ARENA_CREATED) return;
    // It is gone, or all of its blocks are free.
    for (auto block = blocks_.begin(); block != blocks_.end();)
      block = block->second.arena == arena.arena ? take(block) : std::next(block);
  }
  void on_arena_failed(const ArenaFailedEvent& refused, uint32_t stack) override {
    if (refused.device == device_)
      on_event({"oom", refused.free.value_or(0), refused.bytes, stack});
  }

  void on_event(const TorchEvent& event) {
    constexpr int64_t kNsPerUs = 1000;
    pickle_.dict("action", event.action, event.action == "oom" ? "device_free" : "addr",
                 event.address, "size", event.bytes, "stream", 0, "time_us",
                 profile_.to_ns(replay().last_ticks()) / kNsPerUs, "frames",
                 [&] { frames_.write(event.stack); });
  }

  struct Piece {
    uint64_t id = 0, bytes = 0;
    uint32_t stack = 0;
    bool shared = false;
    bool mapped = false;
  };
  struct Block {
    uint64_t arena = 0, bytes = 0;
    uint32_t stack = 0;
  };
  /// A block of created memory (cuMemCreate) that is not mapped now.
  struct Created {
    uint64_t bytes = 0;
    uint32_t stack = 0;
  };
  using Pieces = std::map<uint64_t, Piece>;
  using Blocks = std::map<uint64_t, Block>;

  uint64_t free_address(uint64_t wanted, uint64_t id) const {
    return wanted != 0 && !pieces_.contains(wanted) ? wanted : kNoAddress + (id << kNoAddressShift);
  }
  void add(uint64_t address, const Piece& piece, std::string_view action) {
    pieces_[address] = piece;
    places_[piece.id] = address;
    on_event({action, address, piece.bytes, piece.stack});
    if (!piece.shared) on_event({"alloc", address, piece.bytes, piece.stack});
  }
  Pieces::iterator remove(Pieces::iterator found) {
    const auto [address, piece] = *found;
    if (!piece.shared) {
      on_event({"free_requested", address, piece.bytes, piece.stack});
      on_event({"free_completed", address, piece.bytes, piece.stack});
    }
    // Blocks of an arena that lie in the piece end with it.
    auto block = piece.shared ? blocks_.lower_bound(address) : blocks_.end();
    while (block != blocks_.end() && block->first < address + piece.bytes) block = take(block);
    on_event({piece.mapped ? "segment_unmap" : "segment_free", address, piece.bytes, piece.stack});
    places_.erase(piece.id);
    return pieces_.erase(found);
  }
  Blocks::iterator take(Blocks::iterator found) {
    const auto& [address, block] = *found;
    on_event({"free_requested", address, block.bytes, block.stack});
    on_event({"free_completed", address, block.bytes, block.stack});
    return blocks_.erase(found);
  }
  /// The piece of an arena that contains the address; end(): none does.
  Pieces::const_iterator around(uint64_t address) const {
    auto piece = pieces_.upper_bound(address);
    if (piece == pieces_.begin()) return pieces_.end();
    --piece;
    const bool inside = address - piece->first < piece->second.bytes;
    return inside && piece->second.shared ? piece : pieces_.end();
  }

  const Profile& profile_;
  const int32_t device_;
  const ScopeId scope_;
  Pickle& pickle_;
  FramePickler& frames_;
  const std::unordered_set<uint64_t>& shared_out_;  // ids of blocks that arenas share out
  Pieces pieces_;                                   // by address
  std::map<uint64_t, uint64_t> places_;             // addresses by the driver's id
  std::map<uint64_t, Created> unmapped_;            // by the driver's id
  Blocks blocks_;                                   // blocks of arenas, by address
};

void write_segment(Pickle& pickle, FramePickler& frames, int32_t device,
                   const TorchSegment& segment) {
  constexpr uint64_t kSmallSegment = 2 << 20;  // PyTorch's limit, for blocks of up to 1 MiB
  const uint64_t active =
      sum_of(segment.blocks, [](const auto& block) { return block.active ? block.bytes : 0; });
  const auto pool_id = [&] {
    pickle.put(0);
    pickle.put(0);
    pickle.pair_end();
  };
  const auto blocks = [&] {
    for (const TorchSegment::Block& block : segment.blocks)
      pickle.dict("address", block.address, "size", block.bytes, "requested_size",
                  block.active ? block.bytes : 0, "state",
                  block.active ? "active_allocated" : "inactive", "frames",
                  [&] { frames.write(block.stack); });
  };
  pickle.dict(
      "device", device, "address", segment.address, "total_size", segment.bytes, "allocated_size",
      active, "active_size", active, "requested_size", active, "stream", 0, "segment_type",
      segment.bytes <= kSmallSegment ? "small" : "large", "segment_pool_id", pool_id,
      "is_expandable", segment.expandable, "frames", [&] { frames.write(segment.stack); }, "blocks",
      [&] { pickle.list(blocks); });
}

/// The scopes of devices, by ordinal; devices without memory have none.
std::map<int32_t, ScopeId> device_scopes(const Profile& profile, const std::string& wanted) {
  std::map<int32_t, ScopeId> scopes;
  const ScopeInfo* only = wanted.empty() ? nullptr : &profile.scope_info(profile.scope(wanted));
  if (only != nullptr && !only->name.starts_with("device"))
    throw UsageError("a PyTorch snapshot holds device memory only");
  for (const ScopeId id : profile.scopes()) {
    const ScopeInfo& info = profile.scope_info(id);
    const uint8_t kind = only != nullptr ? only->kind : 0;
    const int32_t device = only != nullptr && only->device >= 0 ? only->device : info.device;
    if (info.device < 0 || info.device != device || info.kind != kind) continue;
    // The preload counts only so many devices; a damaged log may name others.
    if (info.device < static_cast<int32_t>(GPUPEAK_LOG_MAX_DEVICES)) scopes[info.device] = id;
  }
  return scopes;
}

}  // namespace

void export_torch_snapshot(Profile& profile, const ExportOptions& options, std::ostream& out) {
  const std::map<int32_t, ScopeId> scopes = device_scopes(profile, options.scope);
  if (scopes.empty())
    throw UsageError("a PyTorch snapshot holds device memory only, and this log has none");
  const int32_t devices = scopes.rbegin()->first + 1;
  Pickle pickle(out);
  FramePickler frames(profile, pickle);
  std::map<int32_t, std::vector<TorchSegment>> live;
  const auto traces = [&] {
    for (int32_t device = 0; device < devices; ++device) {
      pickle.list([&] {
        const ScopeId* const scope = value_in(scopes, device);
        if (scope == nullptr) return;
        DeviceTrace trace(profile, device, *scope, pickle, frames);
        profile.replay_again(trace, options.progress);
        live[device] = trace.segments();
      });
    }
  };
  const auto all_segments = [&] {
    for (const auto& [device, segments] : live) {
      for (const TorchSegment& segment : segments) write_segment(pickle, frames, device, segment);
    }
  };
  pickle.dict(
      "device_traces", [&] { pickle.list(traces); }, "segments", [&] { pickle.list(all_segments); },
      "allocator_settings", [&] { pickle.dict(); }, "external_annotations",
      [&] { pickle.list([] {}); });
  pickle.end();
}

}  // namespace gpupeak::collector
