#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "collector/log/event_stream.h"
#include "collector/log/kinds.h"
#include "collector/text/sanitize.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kFlushBytes = 1 << 16;

/// By its number in log_format.h.
template <size_t kCount>
std::string_view event_name(const std::string_view (&names)[kCount], uint64_t event) {
  return event < kCount ? names[event] : "?";
}
constexpr std::string_view kPoolEvents[] = {"created", "destroyed", "read"};
/// Of contexts and of arenas.
constexpr std::string_view kEvents[] = {"created", "destroyed", "reset"};

class Dump {
 public:
  Dump(const LogReader& log, std::ostream& out) : log_(log), out_(out) {}
  ~Dump() { flush(); }
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;

  void write_header() {
    const gpupeak_file_header& header = log_.header();
    print("log version {} by gpupeak {} pid {} ppid {} rank {} host_mode {} clock {} flags {:#x}\n",
          header.version, log_.tool_version(), header.pid, header.ppid, header.rank,
          header.host_mode, header.clock, header.flags);
    const gpupeak_counters_page& page = log_.counters();
    print(
        "counters quality {:#x} dropped {} reentrant {} early {} truncated_stacks {} "
        "verified_stacks {} wrong_stacks {} device_events {} heap_live {} heap_peak {} ended {} "
        "exit {}:{} rss_peak {}\n",
        page.quality, page.dropped_events, page.reentrant_calls, page.early_calls,
        page.truncated_stacks, page.verified_stacks, page.wrong_stacks, page.device_events,
        page.heap.live, page.heap.peak, page.ended, page.exit_kind, page.exit_code,
        page.rss_peak_bytes);
  }

  void write_definitions() {
    const Definitions& definitions = log_.definitions();
    for (const auto& [key, value] : definitions.facts())
      print("fact {} = {}\n", log_.definitions().shown(key), log_.definitions().shown(value));
    for (const DeviceInfo& device : definitions.devices()) {
      print("device {} total {} uuid {} memory {:#x} name {}\n", device.ordinal, device.total_bytes,
            log_.definitions().sanitizer().id(device.uuid), device.memory, escape(device.name));
    }
    for (size_t id = 1; id < definitions.modules().size(); ++id) {
      const Module& module = definitions.modules()[id];
      print("module {} bias {:#x} build_id {} {}\n", id, module.bias,
            log_.definitions().sanitizer().id(module.build_id),
            log_.definitions().shown(module.path));
    }
    for (uint32_t id = 1; id < definitions.strings().size(); ++id)
      print("string {} {}\n", id, definitions.shown_string(id));
    for (size_t number = 1; number < definitions.python_frames().size(); ++number) {
      const PythonFrame& frame = definitions.python_frames()[number];
      print("python_frame {} {} {}:{}\n", number, string(frame.function), string(frame.file),
            frame.line);
    }
    for (size_t id = 1; id < definitions.nodes().size(); ++id) {
      const StackNode& node = definitions.nodes()[id];
      if (definitions.python_frame(node) != nullptr)
        print("node {} parent {} python_frame {}\n", id, node.parent, node.ip ^ GPUPEAK_PYTHON_IP);
      else
        print("node {} parent {} ip {:#x} module {}\n", id, node.parent, node.ip, node.module);
    }
  }

  void on_event(const Event& event) {
    ticks_ = event.ticks;
    print("{} slot {} tid {} ", time(0), log_.slots()[event.slot].number, event.tid);
    if (is_heap_event(event.tag)) {
      heap_event(event);
    } else {
      if (is_device_event(event.tag)) print("seq {} ", event.sequence);
      visit_record(event, [this](const auto& record, std::string_view name) {
        print("{}", name);
        fields(record);
        if (record.malformed) print(" MALFORMED");
      });
    }
    print("\n");
    if (text_.size() > kFlushBytes) flush();
  }

 private:
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void flush() {
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }
  /// The time `ago` ticks before the event.
  std::string time(uint64_t ago) const {
    const int64_t ns = log_.clock().to_ns(ticks_ - std::min(ago, ticks_));
    return fmt::format("+{:.9f}", static_cast<double>(ns) / 1e9);
  }
  /// A figure that the log has plus 1; 0 there means that it is not known.
  static std::string known(uint64_t plus_1) {
    return plus_1 > 0 ? fmt::format("{}", plus_1 - 1) : "?";
  }
  /// The figures that the arena gave of itself.
  template <class Told>
  static std::string totals(const Told& told) {
    if (told.in_use_plus_1 == 0) return "";
    return fmt::format(" says in_use {} reserved {}", told.in_use_plus_1 - 1,
                       told.reserved_plus_1 > 0 ? told.reserved_plus_1 - 1 : 0);
  }
  static std::string_view track(bool of_process) { return of_process ? "process" : "thread"; }
  /// The name of a phase, mark, tag or arena.
  template <class Named>
  std::string name(const Named& named) const {
    return named.name != 0 ? string(named.name) : log_.definitions().shown(named.text);
  }
  std::string string(uint32_t id) const { return log_.definitions().shown_string(id); }

  void heap_event(const Event& event) {
    constexpr std::pair<uint8_t, std::string_view> kNames[] = {
        {GPUPEAK_REC_ALLOC, "alloc"},
        {GPUPEAK_REC_FREE, "free"},
        {GPUPEAK_REC_REALLOC_BEGIN, "realloc_begin"},
        {GPUPEAK_REC_REALLOC_END, "realloc_end"},
        {GPUPEAK_REC_REALLOC_FAILED, "realloc_failed"}};
    for (const auto& [tag, name] : kNames) {
      if (tag == event.tag) print("{} {:#x}", name, event.address);
    }
    if (event.tag == GPUPEAK_REC_ALLOC || event.tag == GPUPEAK_REC_REALLOC_END)
      print(" size {} usable {} stack {}", event.size,
            static_cast<int64_t>(event.size) + event.slack, event.stack);
  }

  // One overload for each extended record prints what follows its name.
  void fields(const ThreadEvent& e) { print(" {} {}", e.tid, log_.definitions().shown(e.name)); }
  void fields(const MapEvent& e) {
    print(" {:#x} bytes {} prot {} kind {} stack {}", e.address, e.bytes, e.prot, kind_path(e.kind),
          e.stack);
  }
  void fields(const RangeEvent& e) { print(" {:#x} bytes {}", e.address, e.bytes); }
  void fields(const ProtectEvent& e) {
    print(" {:#x} bytes {} prot {}", e.address, e.bytes, e.prot);
  }
  void fields(const RemapEvent& e) {
    print(" {:#x} bytes {} to {:#x} bytes {} stack {}", e.old_address, e.old_bytes, e.new_address,
          e.new_bytes, e.stack);
  }
  void fields(const PhasePushEvent& e) {
    print(" {} source {} {}", track(e.of_process), e.source, name(e));
    instance(e.instance, e.category);
  }
  void fields(const PhasePopEvent& e) {
    print(" {}", track(e.of_process));
    if (e.source == GPUPEAK_PHASE_AUTO) return;
    print(" source {}", e.source);
    instance(e.instance, 0);
  }
  void fields(const MarkEvent& e) {
    print(" source {} {}", e.source, name(e));
    instance(e.instance, e.category);
  }
  void fields(const RangeBeginEvent& e) {
    print(" id {} source {} {}", e.id, e.source, name(e));
    instance(e.instance, e.category);
  }
  void fields(const RangeEndEvent& e) { print(" id {}", e.id); }
  void instance(uint64_t instance, uint32_t category) {
    if (instance != 0) print(" instance {}", instance);
    if (category != 0) print(" category {}", string(category));
  }
  void fields(const TagPushEvent& e) { print(" {}", name(e)); }
  void fields(const TagPopEvent& /*e*/) {}
  void fields(const ArenaEvent& e) {
    print(" {} {} {} {:#x} bytes {}", e.arena, event_name(kEvents, e.event), name(e), e.address,
          e.bytes);
    if (e.device >= 0) print(" device {}", e.device);
  }
  void fields(const ArenaAllocEvent& e) {
    print(" {} {:#x} bytes {} {} stack {}{}", e.arena, e.address, e.bytes, string(e.name), e.stack,
          totals(e));
    if (e.asked != 0) print(" asked {}", e.asked);
  }
  void uses(const SeenUses& e) {
    print(" count {}", e.count);
    if (e.count > 0)
      print(" first {} last {} streams {}", time(e.first_ago), time(e.last_ago), e.streams);
    if (e.idle > 0)
      print(" idle {} to {}", time(e.idle_since_ago), time(e.idle_since_ago - e.idle));
  }
  void fields(const ArenaFreeEvent& e) {
    print(" {} {:#x}{}", e.arena, e.address, totals(e));
    if (!e.used) return;
    print(" used");
    uses(*e.used);
  }
  void fields(const ArenaFailedEvent& e) {
    print(" {} bytes {} stack {}{}", e.arena, e.bytes, e.stack, totals(e));
    if (e.device >= 0) print(" device {}", e.device);
    if (e.free) print(" free {}", *e.free);
    if (e.total) print(" total {}", *e.total);
    if (e.limit) print(" limit {}", *e.limit);
  }
  void fields(const DeviceMappedEvent& e) {
    print(" {:#x} bytes {} id {}", e.address, e.bytes, e.id);
  }
  void fields(const SamplingEvent& e) {
    print(" bytes {}", e.sample_bytes);
    if (e.whole_bytes > 0) print(" whole {}", e.whole_bytes);
  }
  void fields(const WindowEvent& e) {
    print(" {} {} mode {} live {} recorded {} freed {} frees {}", e.event == 0 ? "begin" : "end",
          e.number, e.mode, e.live_bytes, e.recorded_bytes, e.freed_bytes, e.frees);
    if (e.below_bytes > 0) print(" below {}", e.below_bytes);
  }
  void used_block(uint64_t arena, uint64_t block) {
    if (arena != 0)
      print(" arena {} {:#x}", arena, block);
    else
      print(" id {}", block);
  }
  void fields(const UsedEvent& e) {
    used_block(e.arena, e.block);
    uses(e);
  }
  void fields(const KernelEvent& e) {
    print(" {} stack {} name {}", e.kernel, e.stack, string(e.name));
  }
  void fields(const RoleEvent& e) {
    constexpr std::string_view kRoles[] = {"",          "copied_in",   "copied_out",
                                           "copied_to", "copied_from", "filled",
                                           "texture",   "passed_on",   "address_copied"};
    used_block(e.arena, e.block);
    if (e.kernel == 0)
      print(" {} count {}", e.place < std::size(kRoles) ? kRoles[e.place] : "", e.count);
    else if (e.place == GPUPEAK_NO_PARAMETER)
      print(" kernel {} argument ? count {}", e.kernel, e.count);
    else
      print(" kernel {} argument {}{} count {}", e.kernel, e.place / 2,
            e.place % 2 != 0 ? " inside" : "", e.count);
  }
  void fields(const UsesEndEvent& e) { print(" left_out {} unread {}", e.left_out, e.unread); }
  void fields(const SampleEvent& e) {
    print(" rss {} rss_file {} brk_growth {}", e.rss, e.rss_file, e.brk_growth);
    if (e.pss_plus_1 > 0) print(" pss {}", e.pss_plus_1 - 1);
    if (e.own) print(" own {}", *e.own);
  }
  void fields(const ResidentEvent& e) {
    print(
        " rss {} files {} shared {} driver {} stacks {} anonymous {} log {} own {} free_in_malloc "
        "{} heap {} static_data {} written {}",
        e.rss, e.files, e.shared, e.driver, e.stacks, e.anonymous, e.log, e.own,
        known(e.free_in_malloc_plus_1), e.heap, e.static_data, e.written);
    if (!e.places) return;
    print(" places");
    for (const auto& place : *e.places)
      print(" {:#x} bytes {} absent {}", place.address, place.bytes, place.absent);
  }
  void fields(const DriverReadingEvent& e) {
    print(" device {} used {} source {} cause {}", e.device, e.used,
          e.source == GPUPEAK_READING_NVML ? "nvml" : "cuda", ledger_cause_name(e.cause));
    if (e.reserved) print(" reserved {}", *e.reserved);
    if (e.own) print(" own {}", *e.own);
    if (e.others) print(" others {}", *e.others);
    print(" overlaps {} uncertain {:d} stack {}", e.overlaps, e.uncertain, e.stack);
    if (e.api != 0) print(" api {}", string(e.api));
    if (e.name != 0) print(" name {}", string(e.name));
  }
  void fields(const DeviceAllocEvent& e) {
    print(" id {} kind {} device {} {:#x} bytes {} api {} stack {} context {:#x} aux {:#x}", e.id,
          kind_path(e.kind), e.device, e.address, e.bytes, string(e.api), e.stack, e.context,
          e.aux);
    if (e.captured) print(" captured");
  }
  void fields(const DeviceFreeEvent& e) {
    print(" id {} api {} stack {}", e.id, string(e.api), e.stack);
  }
  void fields(const DeviceReviveEvent& e) { print(" id {}", e.id); }
  void fields(const DeviceFailedEvent& e) {
    print(" kind {} device {} bytes {} result {} live {} free {} total {} api {} stack {}{}",
          kind_path(e.kind), e.device, e.bytes, e.result, e.live, known(e.free_plus_1),
          known(e.total_plus_1), string(e.api), e.stack, e.by_run_limit ? " by_limit" : "");
  }
  void fields(const HostFailedEvent& e) {
    print(" kind {} bytes {} errno {} limit {} of {} used {} api {} stack {}", kind_path(e.kind),
          e.bytes, e.error, e.limit, e.limit_bytes, e.used, string(e.api), e.stack);
    if (e.own) print(" own {}", *e.own);
  }
  void fields(const DeviceUnknownEvent& e) {
    print(" {:#x} api {} stack {}", e.address, string(e.api), e.stack);
    if (e.gives_back) print(" gives_back {}", *e.gives_back);
  }
  void fields(const PoolEvent& e) {
    print(" {:#x} device {} reserved {} used {} {}", e.pool, e.device, e.reserved, e.used,
          event_name(kPoolEvents, e.event));
  }
  void fields(const ContextEvent& e) {
    print(" {:#x} device {} {}", e.context, e.device, event_name(kEvents, e.event));
  }

  const LogReader& log_;
  uint64_t ticks_ = 0;  // of the event
  std::ostream& out_;
  std::string text_;
};

}  // namespace

void write_dump(const LogReader& log, std::ostream& out, const Progress& progress) {
  Dump dump(log, out);
  dump.write_header();
  dump.write_definitions();
  EventStream stream(log, progress);
  stream.run([&dump](std::span<const Event> events, std::span<const uint32_t> /*notes*/) {
    for (const Event& event : events) dump.on_event(event);
  });
}

}  // namespace gpupeak::collector
