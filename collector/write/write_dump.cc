#include "collector/write/write_dump.h"

#include <fmt/format.h>

#include <iterator>

#include "collector/log/kinds.h"
#include "collector/log/log_reader.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kFlushBytes = 1 << 16;

std::string_view pool_event_name(uint64_t event) {
  switch (event) {
    case GPUPEAK_POOL_CREATED:
      return "created";
    case GPUPEAK_POOL_DESTROYED:
      return "destroyed";
    case GPUPEAK_POOL_READ:
      return "read";
    default:
      return "?";
  }
}

std::string_view context_event_name(uint64_t event) {
  switch (event) {
    case GPUPEAK_CONTEXT_CREATED:
      return "created";
    case GPUPEAK_CONTEXT_DESTROYED:
      return "destroyed";
    case GPUPEAK_CONTEXT_RESET:
      return "reset";
    default:
      return "?";
  }
}

std::string_view arena_event_name(uint64_t event) {
  switch (event) {
    case GPUPEAK_ARENA_CREATED:
      return "created";
    case GPUPEAK_ARENA_DESTROYED:
      return "destroyed";
    case GPUPEAK_ARENA_RESET:
      return "reset";
    default:
      return "?";
  }
}

/// EventStream's visitor.
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
        "device_events {} heap_live {} heap_peak {} ended {} exit {}:{} rss_peak {}\n",
        page.quality, page.dropped_events, page.reentrant_calls, page.early_calls,
        page.truncated_stacks, page.device_events, page.heap.live, page.heap.peak, page.ended,
        page.exit_kind, page.exit_code, page.rss_peak_bytes);
  }

  void write_definitions() {
    const Definitions& definitions = log_.definitions();
    for (const auto& [key, value] : definitions.facts()) {
      print("fact {} = {}\n", sanitize(key), sanitize(value));
    }
    for (const DeviceInfo& device : definitions.devices()) {
      print("device {} total {} uuid {} name {}\n", device.ordinal, device.total_bytes,
            sanitize_id(device.uuid), escape(device.name));
    }
    for (size_t id = 1; id < definitions.modules().size(); ++id) {
      const Module& module = definitions.modules()[id];
      print("module {} bias {:#x} build_id {} {}\n", id, module.bias, sanitize_id(module.build_id),
            sanitize(module.path));
    }
    for (uint32_t id = 1; id < definitions.strings().size(); ++id) {
      print("string {} {}\n", id, sanitize(definitions.string(id)));
    }
    for (size_t number = 1; number < definitions.python_frames().size(); ++number) {
      const PythonFrame& frame = definitions.python_frames()[number];
      print("python_frame {} {} {}:{}\n", number, string(frame.function), string(frame.file),
            frame.line);
    }
    for (size_t id = 1; id < definitions.nodes().size(); ++id) {
      const StackNode& node = definitions.nodes()[id];
      if (definitions.python_frame(node) != nullptr) {
        print("node {} parent {} python_frame {}\n", id, node.parent, node.ip ^ GPUPEAK_PYTHON_IP);
        continue;
      }
      print("node {} parent {} ip {:#x} module {}\n", id, node.parent, node.ip, node.module);
    }
  }

  void prefetch(const Event&) const {}
  void prefetch_next(const Event&) const {}

  void on_event(const Event& event) {
    print("+{:.9f} slot {} tid {} ", static_cast<double>(log_.clock().to_ns(event.ticks)) / 1e9,
          log_.slots()[event.slot].number, event.tid);
    switch (event.tag) {
      case GPUPEAK_REC_ALLOC:
        block("alloc", event);
        break;
      case GPUPEAK_REC_FREE:
        print("free {:#x}", event.address);
        break;
      case GPUPEAK_REC_REALLOC_BEGIN:
        print("realloc_begin {:#x}", event.address);
        break;
      case GPUPEAK_REC_REALLOC_END:
        block("realloc_end", event);
        break;
      case GPUPEAK_REC_REALLOC_FAILED:
        print("realloc_failed {:#x}", event.address);
        break;
      case GPUPEAK_REC_THREAD: {
        const ThreadEvent e = parse_thread(event);
        print("thread {} {}", e.tid, sanitize(e.name));
        break;
      }
      case GPUPEAK_REC_DRIVER_READING: {
        const DriverReadingEvent e = parse_driver_reading(event);
        print("driver_reading device {} used {} source {} cause {}", e.device, e.used,
              e.source == GPUPEAK_READING_NVML ? "nvml" : "cuda", ledger_cause_name(e.cause));
        if (e.reserved) print(" reserved {}", *e.reserved);
        if (e.own) print(" own {}", *e.own);
        if (e.others) print(" others {}", *e.others);
        print(" overlaps {} uncertain {:d} stack {}", e.overlaps, e.uncertain, e.stack);
        if (e.api != 0) print(" api {}", string(e.api));
        if (e.name != 0) print(" name {}", string(e.name));
        print("{}", mark(e));
        break;
      }
      case GPUPEAK_REC_MAP: {
        const MapEvent e = parse_map(event);
        print("map {:#x} bytes {} prot {} kind {} stack {}{}", e.address, e.bytes, e.prot,
              kind_path(e.kind), e.stack, mark(e));
        break;
      }
      case GPUPEAK_REC_UNMAP: {
        const RangeEvent e = parse_unmap(event);
        print("unmap {:#x} bytes {}{}", e.address, e.bytes, mark(e));
        break;
      }
      case GPUPEAK_REC_PROTECT: {
        const RangeEvent e = parse_protect(event);
        print("protect {:#x} bytes {} prot {}{}", e.address, e.bytes, e.prot, mark(e));
        break;
      }
      case GPUPEAK_REC_REMAP: {
        const RemapEvent e = parse_remap(event);
        print("remap {:#x} bytes {} to {:#x} bytes {} stack {}{}", e.old_address, e.old_bytes,
              e.new_address, e.new_bytes, e.stack, mark(e));
        break;
      }
      case GPUPEAK_REC_PHASE_PUSH: {
        const PhaseEvent e = parse_phase_push(event);
        print("phase_push {} source {} {}{}", scope_name(e), e.source, name(e), label(e));
        break;
      }
      case GPUPEAK_REC_PHASE_POP: {
        const PhaseEvent e = parse_phase_pop(event);
        print("phase_pop {}", scope_name(e));
        if (e.source != GPUPEAK_PHASE_AUTO) print(" source {}{}", e.source, label(e));
        break;
      }
      case GPUPEAK_REC_MARK: {
        const MarkEvent e = parse_mark(event);
        print("mark source {} {}{}", e.source, name(e), label(e));
        break;
      }
      case GPUPEAK_REC_RANGE_BEGIN: {
        const RangeBeginEvent e = parse_range_begin(event);
        print("range_begin id {} source {} {}{}", e.id, e.source, name(e), label(e));
        break;
      }
      case GPUPEAK_REC_RANGE_END: {
        const RangeBeginEvent e = parse_range_end(event);
        print("range_end id {}{}", e.id, mark(e));
        break;
      }
      case GPUPEAK_REC_TAG_PUSH: {
        const TagEvent e = parse_tag_push(event);
        print("tag_push {}{}", name(e), mark(e));
        break;
      }
      case GPUPEAK_REC_TAG_POP:
        print("tag_pop");
        break;
      case GPUPEAK_REC_ARENA: {
        const ArenaEvent e = parse_arena(event);
        print("arena {} {} {} {:#x} bytes {}{}{}", e.arena, arena_event_name(e.event), name(e),
              e.address, e.bytes, e.device >= 0 ? fmt::format(" device {}", e.device) : "",
              mark(e));
        break;
      }
      case GPUPEAK_REC_ARENA_ALLOC: {
        const ArenaAllocEvent e = parse_arena_alloc(event);
        print("arena_alloc {} {:#x} bytes {} {} stack {}{}{}", e.arena, e.address, e.bytes,
              string(e.name), e.stack, totals(e), mark(e));
        break;
      }
      case GPUPEAK_REC_ARENA_FREE: {
        const ArenaFreeEvent e = parse_arena_free(event);
        print("arena_free {} {:#x}{}{}", e.arena, e.address, totals(e), mark(e));
        break;
      }
      case GPUPEAK_REC_ARENA_FAILED: {
        const ArenaFailedEvent e = parse_arena_failed(event);
        print("arena_failed {} bytes {} stack {}{}{}", e.arena, e.bytes, e.stack, totals(e),
              mark(e));
        break;
      }
      case GPUPEAK_REC_DEVICE_MAPPED: {
        const DeviceMappedEvent e = parse_device_mapped(event);
        print("device_mapped {:#x} bytes {} id {}{}", e.address, e.bytes, e.id, mark(e));
        break;
      }
      case GPUPEAK_REC_DEVICE_UNMAPPED: {
        const DeviceMappedEvent e = parse_device_unmapped(event);
        print("device_unmapped {:#x} bytes {}{}", e.address, e.bytes, mark(e));
        break;
      }
      case GPUPEAK_REC_SAMPLING: {
        const SamplingEvent e = parse_sampling(event);
        print("sampling bytes {}{}", e.sample_bytes, mark(e));
        break;
      }
      case GPUPEAK_REC_SAMPLE: {
        const SampleEvent e = parse_sample(event);
        print("sample rss {} rss_file {} brk_growth {}", e.rss, e.rss_file, e.brk_growth);
        break;
      }
      default:
        device_event(event);
        break;
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
  static std::string_view mark(const Parsed& parsed) {
    return parsed.malformed ? " MALFORMED" : "";
  }
  /// Of a figure that is logged plus 1.
  static std::string known(uint64_t plus_1) {
    return plus_1 > 0 ? fmt::format("{}", plus_1 - 1) : "?";
  }
  static std::string_view scope_name(const PhaseEvent& phase) {
    return phase.of_process ? "process" : "thread";
  }
  /// What a sub-allocator itself says.
  template <class Told>
  static std::string totals(const Told& told) {
    if (told.in_use_plus_1 == 0) return "";
    return fmt::format(" says in_use {} reserved {}", told.in_use_plus_1 - 1,
                       told.reserved_plus_1 > 0 ? told.reserved_plus_1 - 1 : 0);
  }
  /// The name of a phase, mark, tag or arena.
  template <class Named>
  std::string name(const Named& named) const {
    return named.name != 0 ? string(named.name) : sanitize(named.text);
  }
  std::string label(const PhaseEvent& phase) const {
    std::string text;
    if (phase.instance != 0) text += fmt::format(" instance {}", phase.instance);
    if (phase.category != 0) text += " category " + string(phase.category);
    return text += mark(phase);
  }
  std::string string(uint32_t id) const { return sanitize(log_.definitions().string(id)); }

  void block(std::string_view name, const Event& event) {
    print("{} {:#x} size {} usable {} stack {}", name, event.address, event.size,
          static_cast<int64_t>(event.size) + event.slack, event.stack);
  }

  void device_event(const Event& event) {
    print("seq {} ", event.sequence);
    switch (event.tag) {
      case GPUPEAK_REC_DEVICE_ALLOC: {
        const DeviceAllocEvent e = parse_device_alloc(event);
        print(
            "device_alloc id {} kind {} device {} {:#x} bytes {} api {} stack {} context {:#x} "
            "aux {:#x}{}",
            e.id, kind_path(e.kind), e.device, e.address, e.bytes, string(e.api), e.stack,
            e.context, e.aux, mark(e));
        break;
      }
      case GPUPEAK_REC_DEVICE_FREE: {
        const DeviceFreeEvent e = parse_device_free(event);
        print("device_free id {} api {} stack {}{}", e.id, string(e.api), e.stack, mark(e));
        break;
      }
      case GPUPEAK_REC_DEVICE_REVIVE: {
        const DeviceReviveEvent e = parse_device_revive(event);
        print("device_revive id {}{}", e.id, mark(e));
        break;
      }
      case GPUPEAK_REC_DEVICE_FAILED: {
        const DeviceFailedEvent e = parse_device_failed(event);
        print(
            "device_failed kind {} device {} bytes {} result {} live {} free {} total {} api {} "
            "stack {}{}",
            kind_path(e.kind), e.device, e.bytes, e.result, e.live, known(e.free_plus_1),
            known(e.total_plus_1), string(e.api), e.stack, mark(e));
        break;
      }
      case GPUPEAK_REC_DEVICE_UNKNOWN: {
        const DeviceUnknownEvent e = parse_device_unknown(event);
        print("device_unknown {:#x} api {} stack {}{}", e.address, string(e.api), e.stack, mark(e));
        break;
      }
      case GPUPEAK_REC_POOL: {
        const PoolEvent e = parse_pool(event);
        print("pool {:#x} device {} reserved {} used {} {}{}", e.pool, e.device, e.reserved, e.used,
              pool_event_name(e.event), mark(e));
        break;
      }
      case GPUPEAK_REC_CONTEXT: {
        const ContextEvent e = parse_context(event);
        print("context {:#x} device {} {}{}", e.context, e.device, context_event_name(e.event),
              mark(e));
        break;
      }
      default:
        break;
    }
  }

  const LogReader& log_;
  std::ostream& out_;
  std::string text_;
};

}  // namespace

void write_dump(const std::string& path, std::ostream& out, const Progress& progress) {
  const LogReader log(path);
  Dump dump(log, out);
  dump.write_header();
  dump.write_definitions();
  EventStream stream(log, progress);
  stream.run(dump);
}

}  // namespace gpupeak::collector
