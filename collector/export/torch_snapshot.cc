// PyTorch's memory snapshot, as torch.cuda.memory._snapshot() gives it. Pickled as the events come,
// with one replay for each device.

#include <cstdint>
#include <map>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/export/export.h"
#include "collector/export/torch_segments.h"
#include "collector/log/kinds.h"
#include "collector/summary/site_title.h"
#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

/// Writes Python's pickle format, protocol 2, for plain data, with only those instructions that
/// PyTorch's memory_viz page knows.
class Pickle {
 public:
  explicit Pickle(std::ostream& out) : out_(out) { out_ << '\x80' << '\x02'; }

  // A container's items come between its begin and its end; in a dict, keys and values alternate.
  void begin_dict() { out_ << "}("; }
  void end_dict() { out_ << 'u'; }
  void begin_list() { out_ << "]("; }
  void end_list() { out_ << 'e'; }
  void pair_end() { out_ << '\x86'; }  ///< makes a tuple of the two values before it

  void text(std::string_view value) {
    out_ << 'X';
    little_endian(value.size(), 4);
    out_ << value;
  }
  void integer(int64_t value) {
    if (value == static_cast<int32_t>(value)) {
      out_ << 'J';
      little_endian(static_cast<uint64_t>(value), 4);
    } else {
      out_ << "\x8a\x08";
      little_endian(static_cast<uint64_t>(value), 8);
    }
  }
  void boolean(bool value) { out_ << (value ? '\x88' : '\x89'); }
  void key(std::string_view name) { text(name); }
  void item(std::string_view name, std::string_view value) {
    key(name);
    text(value);
  }
  void item(std::string_view name, int64_t value) {
    key(name);
    integer(value);
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
    pickle_.begin_list();
    for (const Call& call : profile_.calls_to_write(stack)) write_frame(*call.frame);
    pickle_.end_list();
    pickle_.remember(number);
  }

 private:
  void write_frame(const Frame& frame) {
    const auto [known, added] = frames_.try_emplace(&frame, next_);
    if (!added) return pickle_.recall(known->second);
    const uint32_t number = next_++;
    pickle_.begin_dict();
    pickle_.item("name", frame_name(frame));
    pickle_.item("filename", frame.file.empty() ? frame.module : frame.file);
    pickle_.item("line", frame.line);
    pickle_.end_dict();
    pickle_.remember(number);
  }

  Profile& profile_;
  Pickle& pickle_;
  uint32_t next_ = 0;
  std::map<uint32_t, uint32_t> lists_;
  std::map<const Frame*, uint32_t> frames_;
};

/// Writes the events of one device as a list.
class DeviceTrace : public ReplayObserver, public TorchSegments {
 public:
  DeviceTrace(const Profile& profile, int32_t device, ScopeId scope, Pickle& pickle,
              FramePickler& frames)
      : TorchSegments(profile.replay().arenas().shared_out()),
        profile_(profile),
        device_(device),
        scope_(scope),
        pickle_(pickle),
        frames_(frames) {}

 private:
  bool is_of_device(const DeviceBlock& block) const {
    return counts_into(SiteContext{block.alloc.kind, block.alloc.device},
                       profile_.scope_info(scope_));
  }

  void on_block_alloc(const DeviceBlock& block) override {
    if (is_of_device(block)) allocated(block);
  }
  void on_block_free(const DeviceBlock& block) override {
    if (is_of_device(block)) freed(block);
  }
  void on_mapped(const DeviceMappedEvent& event) override { mapped(event); }
  void on_unmapped(const DeviceUnmappedEvent& event) override { unmapped(event); }
  void on_arena_alloc(const ArenaAllocEvent& alloc, uint32_t stack) override {
    given(alloc, stack);
  }
  void on_arena_free(const ArenaFreeEvent& free) override { taken(free); }
  void on_arena(const ArenaEvent& arena) override {
    if (arena.event != GPUPEAK_ARENA_CREATED) emptied(arena.arena);
  }
  void on_arena_failed(const ArenaFailedEvent& failed, uint32_t stack) override {
    if (failed.device == device_) refused(failed, stack);
  }

  void on_event(const TorchEvent& event) override {
    constexpr int64_t kNsPerUs = 1000;
    pickle_.begin_dict();
    pickle_.item("action", event.action);
    pickle_.item(event.action == "oom" ? "device_free" : "addr",
                 static_cast<int64_t>(event.address));
    pickle_.item("size", static_cast<int64_t>(event.bytes));
    pickle_.item("stream", int64_t{0});
    pickle_.item("time_us", profile_.to_ns(replay().last_ticks()) / kNsPerUs);
    pickle_.key("frames");
    frames_.write(event.stack);
    pickle_.end_dict();
  }

  const Profile& profile_;
  const int32_t device_;
  const ScopeId scope_;
  Pickle& pickle_;
  FramePickler& frames_;
};

void write_block(Pickle& pickle, FramePickler& frames, const TorchSegment::Block& block) {
  const auto bytes = static_cast<int64_t>(block.bytes);
  pickle.begin_dict();
  pickle.item("address", static_cast<int64_t>(block.address));
  pickle.item("size", bytes);
  pickle.item("requested_size", block.active ? bytes : int64_t{0});
  pickle.item("state", block.active ? "active_allocated" : "inactive");
  pickle.key("frames");
  frames.write(block.stack);
  pickle.end_dict();
}

void write_segment(Pickle& pickle, FramePickler& frames, int32_t device,
                   const TorchSegment& segment) {
  constexpr uint64_t kSmallSegment = 2 << 20;  // PyTorch's limit, for blocks of up to 1 MiB
  const auto active = static_cast<int64_t>(segment.active_bytes());
  pickle.begin_dict();
  pickle.item("device", device);
  pickle.item("address", static_cast<int64_t>(segment.address));
  pickle.item("total_size", static_cast<int64_t>(segment.bytes));
  pickle.item("allocated_size", active);
  pickle.item("active_size", active);
  pickle.item("requested_size", active);
  pickle.item("stream", int64_t{0});
  pickle.item("segment_type", segment.bytes <= kSmallSegment ? "small" : "large");
  pickle.key("segment_pool_id");
  pickle.integer(0);
  pickle.integer(0);
  pickle.pair_end();
  pickle.key("is_expandable");
  pickle.boolean(segment.expandable);
  pickle.key("frames");
  frames.write(segment.stack);
  pickle.key("blocks");
  pickle.begin_list();
  for (const TorchSegment::Block& block : segment.blocks) write_block(pickle, frames, block);
  pickle.end_list();
  pickle.end_dict();
}

/// The scopes of devices, by ordinal; devices without memory have none.
std::map<int32_t, ScopeId> device_scopes(const Profile& profile, const std::string& wanted) {
  std::map<int32_t, ScopeId> scopes;
  const ScopeInfo* only = wanted.empty() ? nullptr : &profile.scope_info(profile.scope(wanted));
  if (only != nullptr && !only->name.starts_with("device")) {
    throw UsageError("a PyTorch snapshot holds device memory only");
  }
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
  pickle.begin_dict();
  pickle.key("device_traces");
  pickle.begin_list();
  for (int32_t device = 0; device < devices; ++device) {
    pickle.begin_list();
    if (const auto scope = scopes.find(device); scope != scopes.end()) {
      DeviceTrace trace(profile, device, scope->second, pickle, frames);
      profile.replay_again(trace, options.progress);
      live[device] = trace.segments();
    }
    pickle.end_list();
  }
  pickle.end_list();
  pickle.key("segments");
  pickle.begin_list();
  for (const auto& [device, segments] : live) {
    for (const TorchSegment& segment : segments) write_segment(pickle, frames, device, segment);
  }
  pickle.end_list();
  pickle.key("allocator_settings");
  pickle.begin_dict();
  pickle.end_dict();
  pickle.key("external_annotations");
  pickle.begin_list();
  pickle.end_list();
  pickle.end_dict();
  pickle.end();
}

}  // namespace gpupeak::collector
