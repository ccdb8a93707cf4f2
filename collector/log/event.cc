#include "collector/log/event.h"

#include <algorithm>

#include "collector/log/byte_reader.h"
#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

bool too_large(uint64_t bytes) {
  return bytes > kMaxBlockBytes;
}
bool wraps(uint64_t address, uint64_t bytes) {
  return too_large(bytes) || address + bytes < address;
}

/// Fields of one byte, so that operator>> can tell a kind from a source.
struct Kind {
  uint8_t& kind;
};
struct Source {
  uint8_t& source;
};

/// Reads the fields of a record one after the other, each by its type. Marks the record as
/// malformed as soon as a field is. read() has an overload for each extended record; older logs
/// lack the fields that came later.
class Body {
 public:
  Body(const Event& event, Parsed& record)
      : event_(event), fields_(event.body, event.body_bytes), record_(record) {
    // Its sequence number, which the event has already.
    if (is_device_event(event.tag)) fields_.u();
  }

  void read(ThreadEvent& e) { *this >> e.tid >> e.name; }
  void read(MapEvent& e) {
    *this >> e.address >> e.bytes >> e.prot >> Kind{e.kind} >> e.stack;
    refuse_if(wraps(e.address, e.bytes) || e.kind == GPUPEAK_KIND_NONE || is_device_kind(e.kind));
  }
  void read(RangeEvent& e) {
    *this >> e.address >> e.bytes;
    refuse_if(wraps(e.address, e.bytes));
  }
  void read(ProtectEvent& e) {
    read(static_cast<RangeEvent&>(e));
    *this >> e.prot;
  }
  void read(RemapEvent& e) {
    *this >> e.old_address >> e.old_bytes >> e.new_address >> e.new_bytes >> e.stack;
    refuse_if(wraps(e.old_address, e.old_bytes) || wraps(e.new_address, e.new_bytes));
  }
  void read(PhasePushEvent& e) { label(*this >> e.of_process, e); }
  void read(PhasePopEvent& e) { *this >> e.of_process >> Source{e.source} >> e.instance; }
  void read(MarkEvent& e) { label(*this, e); }
  void read(RangeBeginEvent& e) { label(*this >> e.id, e); }
  void read(RangeEndEvent& e) { *this >> e.id; }
  void read(TagPushEvent& e) { *this >> e.name >> e.text; }
  void read(TagPopEvent& /*e*/) {}  // it has no fields
  void read(ArenaEvent& e) {
    *this >> e.arena >> e.event >> e.name >> e.address >> e.bytes >> e.text >> e.device;
    refuse_if(wraps(e.address, e.bytes));
  }
  void read(ArenaAllocEvent& e) {
    *this >> e.arena >> e.address >> e.bytes >> e.name >> e.stack >> e.in_use_plus_1 >>
        e.reserved_plus_1 >> e.asked;
    refuse_if(wraps(e.address, e.bytes));
  }
  void read(ArenaFreeEvent& e) {
    std::optional<uint64_t> count;
    *this >> e.arena >> e.address >> e.bytes >> e.in_use_plus_1 >> e.reserved_plus_1 >> count;
    if (count) e.used = uses(*count);
  }
  void read(ArenaFailedEvent& e) {
    *this >> e.arena >> e.bytes >> e.in_use_plus_1 >> e.reserved_plus_1 >> e.stack >> e.device >>
        e.free >> e.total >> e.limit;
  }
  void read(DeviceMappedEvent& e) {
    read(static_cast<RangeEvent&>(e));
    *this >> e.id;
  }
  void read(SamplingEvent& e) {
    *this >> e.sample_bytes >> e.whole_bytes;
    refuse_if(too_large(e.sample_bytes));
  }
  void read(UsedEvent& e) {
    uint64_t count = 0;
    *this >> e.arena >> e.block >> count;
    static_cast<SeenUses&>(e) = uses(count);
  }
  void read(UsesEndEvent& e) { *this >> e.left_out >> e.unread; }
  void read(KernelEvent& e) { *this >> e.kernel >> e.name >> e.stack; }
  void read(RoleEvent& e) { *this >> e.arena >> e.block >> e.kernel >> e.place >> e.count; }
  void read(WindowEvent& e) {
    *this >> e.event >> e.number >> e.mode >> e.live_bytes >> e.recorded_bytes >> e.freed_bytes >>
        e.frees >> e.below_bytes;
    for (const uint64_t bytes : {e.live_bytes, e.recorded_bytes, e.freed_bytes, e.below_bytes})
      refuse_if(too_large(bytes));
    refuse_if(e.event > 1);
  }
  void read(DeviceAllocEvent& e) {
    *this >> e.id >> Kind{e.kind} >> e.device >> e.address >> e.bytes >> e.api >> e.stack >>
        e.context >> e.aux >> e.captured;
    refuse_if(too_large(e.bytes) || e.kind == GPUPEAK_KIND_NONE);
  }
  void read(DeviceFreeEvent& e) { *this >> e.id >> e.api >> e.stack; }
  void read(DeviceReviveEvent& e) { *this >> e.id; }
  void read(DeviceFailedEvent& e) {
    *this >> Kind{e.kind} >> e.device >> e.bytes >> e.result >> e.live >> e.free_plus_1 >>
        e.total_plus_1 >> e.api >> e.stack >> e.by_run_limit;
  }
  void read(HostFailedEvent& e) {
    *this >> Kind{e.kind} >> e.bytes >> e.error >> e.limit >> e.limit_bytes >> e.used >> e.api >>
        e.stack >> e.own;
  }
  void read(ResidentEvent& e) {
    *this >> e.rss >> e.files >> e.shared >> e.driver >> e.stacks >> e.anonymous >> e.log >>
        e.own >> e.free_in_malloc_plus_1 >> e.heap >> e.static_data >> e.written;
    refuse_if(too_large(e.rss) || too_large(e.anonymous));
    std::optional<uint64_t> count;
    *this >> count;
    if (!count) return;
    refuse_if(*count > GPUPEAK_MAX_PLACES);
    uint64_t before = 0;
    for (e.places.emplace(record_.malformed ? 0 : *count);
         ResidentEvent::Place & place : *e.places) {
      *this >> place.address >> place.bytes >> place.absent;
      place.address += before;
      refuse_if(place.address < before || wraps(place.address, place.bytes) ||
                place.absent > place.bytes);
      before = place.address + place.bytes;
    }
  }
  void read(DeviceUnknownEvent& e) {
    *this >> e.address >> e.api >> e.stack >> e.gives_back;
    refuse_if(too_large(e.gives_back.value_or(0)));
  }
  void read(PoolEvent& e) {
    *this >> e.pool >> e.device >> e.reserved >> e.used >> e.event;
    refuse_if(too_large(e.reserved) || too_large(e.used));
  }
  void read(ContextEvent& e) { *this >> e.context >> e.device >> e.event; }
  void read(SampleEvent& e) {
    *this >> e.rss >> e.rss_file >> e.brk_growth >> e.pss_plus_1 >> e.own;
    refuse_if(too_large(e.rss));
  }
  void read(DriverReadingEvent& e) {
    uint64_t source = 0, cause = 0;
    uint32_t processes = 0;
    *this >> e.device >> e.used >> source >> cause >> e.reserved >> e.own >> e.others >>
        e.overlaps >> e.uncertain >> e.api >> e.name >> e.stack;
    e.has_list = !fields_.at_end();
    *this >> processes;
    constexpr uint32_t kMostProcesses = 64;
    for (e.processes.resize(std::min(processes, kMostProcesses));
         DriverReadingEvent::Process & process : e.processes)
      *this >> process.pid >> process.bytes >> process.name;
    e.source = source == GPUPEAK_READING_NVML ? GPUPEAK_READING_NVML : GPUPEAK_READING_CUDA;
    e.cause =
        static_cast<uint8_t>(cause < GPUPEAK_LEDGER_LIMIT ? cause : uint64_t{GPUPEAK_LEDGER_NONE});
    refuse_if(e.device < 0 || too_large(e.used) || too_large(e.reserved.value_or(0)) ||
              too_large(e.own.value_or(0)) || too_large(e.others.value_or(0)));
  }

 private:
  Body& operator>>(uint64_t& field) { return took(field = fields_.u()); }
  Body& operator>>(uint32_t& field) { return took(field = fields_.u32()); }
  Body& operator>>(bool& field) { return took(field = fields_.u() != 0); }
  Body& operator>>(std::string_view& field) { return took(field = fields_.s()); }
  /// A device: logged as ordinal + 1.
  Body& operator>>(int32_t& device) {
    const uint64_t field = fields_.u();
    return took(device = field > GPUPEAK_LOG_MAX_DEVICES ? -1 : static_cast<int32_t>(field) - 1);
  }
  /// Logged as value + 1, 0 for not known.
  Body& operator>>(std::optional<uint64_t>& field) {
    const uint64_t value = fields_.u();
    return took(field = value == 0 ? std::nullopt : std::optional(value - 1));
  }
  Body& operator>>(Kind field) { return took(field.kind = checked_kind(fields_.u())); }
  Body& operator>>(Source field) {
    const uint64_t source = fields_.u();
    const bool known = source <= GPUPEAK_PHASE_PJRT;
    return took(field.source = static_cast<uint8_t>(known ? source : uint64_t{GPUPEAK_PHASE_API}));
  }
  static void label(Body& body, LabelledEvent& e) {
    body >> Source{e.source} >> e.name >> e.instance >> e.category >> e.text;
  }
  /// Reads the fields that follow `count`.
  SeenUses uses(uint64_t count) {
    SeenUses uses{};
    uses.count = count;
    *this >> uses.first_ago >> uses.last_ago >> uses.idle >> uses.idle_since_ago >> uses.streams;
    if (uses.idle == 0 && uses.first_ago > uses.last_ago) {
      uses.idle = uses.first_ago - uses.last_ago;
      uses.idle_since_ago = uses.first_ago;
    }
    if (count > 0 && uses.streams == 0) uses.streams = 1;
    refuse_if(uses.last_ago > uses.first_ago || uses.first_ago > event_.ticks ||
              uses.idle_since_ago > event_.ticks || uses.idle > uses.idle_since_ago);
    return uses;
  }
  void refuse_if(bool makes_no_sense) { record_.malformed |= makes_no_sense; }

  template <class Field>
  Body& took(const Field& /*field*/) {
    record_.malformed |= fields_.malformed();
    return *this;
  }

  const Event& event_;
  ByteReader fields_;
  Parsed& record_;
};

}  // namespace

#define GPUPEAK_DEFINE_PARSER(TAG, Struct, name) \
  Struct parse_##name(const Event& event) {      \
    Struct record;                               \
    Body(event, record).read(record);            \
    return record;                               \
  }
GPUPEAK_EXTENDED_RECORDS(GPUPEAK_DEFINE_PARSER)
#undef GPUPEAK_DEFINE_PARSER

}  // namespace gpupeak::collector
