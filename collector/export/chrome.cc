// Trace-event JSON, which Perfetto and chrome://tracing open: a counter for each sum, phases as
// slices of their threads, and every block of the driver as an asynchronous slice from its
// allocation to its free, since such blocks do not nest. Written as the events come.
#include <fmt/format.h>

#include "collector/export/export.h"
#include "collector/log/kinds.h"
#include "collector/text/text_format.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {
namespace {

/// The run is cut into so many equal parts. A counter shows its largest and its last value in each
/// part.
constexpr uint64_t kCounterParts = 10'000;
/// Thread ids are smaller (PID_MAX_LIMIT).
constexpr uint32_t kProcessTrackTid = (1 << 22) + 1;

std::string json_text(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Chrome : public PhaseSlices {
 public:
  Chrome(Profile& profile, const std::vector<ScopeId>& scopes, std::optional<ScopeId> only,
         std::ostream& out)
      : profile_(profile),
        only_(only),
        out_(out),
        pid_(profile.log().header().pid),
        start_(profile.log().header().start_ticks) {
    for (const ScopeId scope : scopes) counters_.push_back({scope});
    const uint64_t end = profile.replay().last_ticks();
    part_ticks_ = end > start_ ? (end - start_) / kCounterParts + 1 : 1;
    out_ << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"exporter\":\"gpupeak\",\"log\":"
         << json_text(profile.definitions().shown(profile.path())) << "},\"traceEvents\":[\n";
    write_names();
  }

  void finish() {
    for (Counter& counter : counters_) flush(counter);
    out_ << "\n]}\n";
  }

 private:
  struct Counter {
    ScopeId scope;
    uint64_t part = 0;
    uint64_t max = 0, max_ticks = 0;
    uint64_t last = 0, last_ticks = 0;
    bool any = false;  // has a value in this part
  };

  void write_names() {
    name("process_name", pid_, process_name());
    name("thread_name", kProcessTrackTid, "phases of the process");
    for (const auto& [tid, text] : profile_.replay().thread_names())
      name("thread_name", tid, profile_.definitions().shown(text));
  }
  std::string process_name() const {
    for (const auto& [key, value] : profile_.definitions().facts()) {
      if (key == "arg") return profile_.definitions().shown(file_name(value));
    }
    return "process";
  }
  void name(std::string_view what, uint32_t tid, std::string_view text) {
    begin_event('M', profile_.log().header().start_ticks, tid);
    out_ << fmt::format(",\"name\":\"{}\",\"args\":{{\"name\":{}}}}}", what, json_text(text));
  }

  void begin_event(char type, uint64_t ticks, uint32_t tid) {
    constexpr int64_t kNsPerUs = 1000;
    const int64_t ns = std::max<int64_t>(profile_.to_ns(ticks), 0);
    out_ << separator_
         << fmt::format(R"({{"ph":"{}","pid":{},"tid":{},"ts":{}.{:03})", type, pid_, tid,
                        ns / kNsPerUs, ns % kNsPerUs);
    separator_ = ",\n";
  }

  // Counters.
  void after(const Event& event) override {
    const uint64_t part = (std::max(event.ticks, start_) - start_) / part_ticks_;
    for (Counter& counter : counters_) {
      const uint64_t bytes = replay().current(counter.scope);
      if (bytes == counter.last) continue;
      if (counter.any && part != counter.part) flush(counter);
      if (!counter.any || bytes > counter.max) {
        counter.max = bytes;
        counter.max_ticks = event.ticks;
      }
      counter.any = true;
      counter.part = part;
      counter.last = bytes;
      counter.last_ticks = event.ticks;
    }
  }
  void flush(Counter& counter) {
    if (!counter.any) return;
    counter.any = false;
    value(counter.scope, counter.max, counter.max_ticks);
    // The last value may have the time of the largest one: in a log of one thread many events share
    // a time.
    if (counter.last_ticks != counter.max_ticks || counter.last != counter.max)
      value(counter.scope, counter.last, counter.last_ticks);
  }
  void value(ScopeId scope, uint64_t bytes, uint64_t ticks) {
    begin_event('C', ticks, 0);
    out_ << fmt::format(R"(,"name":"{}","args":{{"bytes":{}}}}})", profile_.scope_info(scope).name,
                        bytes);
  }

  // Blocks.
  bool shown(const DeviceBlock& block) const {
    return !only_ || counts_into(SiteContext{block.alloc.kind, block.alloc.device},
                                 profile_.scope_info(*only_));
  }
  void on_block_alloc(const DeviceBlock& block) override {
    if (!shown(block)) return;
    begin_block('b', block);
    out_ << fmt::format(R"(,"args":{{"bytes":{},"kind":"{}","device":{},"address":"{:#x}")",
                        block.alloc.bytes, kind_path(block.alloc.kind),
                        block.alloc.device < 0 ? "null" : std::to_string(block.alloc.device),
                        block.alloc.address);
    const std::string api = profile_.definitions().shown_string(block.alloc.api);
    if (!api.empty()) out_ << ",\"api\":" << json_text(api);
    out_ << "}}";
  }
  void on_block_free(const DeviceBlock& block) override {
    if (!shown(block)) return;
    begin_block('e', block);
    out_ << '}';
  }
  void begin_block(char type, const DeviceBlock& block) {
    begin_event(type, replay().last_ticks(), block.tid);
    out_ << fmt::format(R"(,"cat":"block","id":"{:#x}","name":{})", block.alloc.id,
                        json_text(profile_.sites().site_title(block.alloc.stack)));
  }

  // Phases.
  void on_slice_begin(uint32_t track, std::string_view name, uint64_t ticks) override {
    begin_event('B', ticks, track == kProcessTrack ? kProcessTrackTid : track);
    out_ << ",\"cat\":\"phase\",\"name\":" << json_text(name) << '}';
  }
  void on_slice_end(uint32_t track, uint64_t ticks) override {
    begin_event('E', ticks, track == kProcessTrack ? kProcessTrackTid : track);
    out_ << '}';
  }
  void range(char type, uint64_t id, const PhaseLabel& label, uint64_t ticks) {
    begin_event(type, ticks, kProcessTrackTid);
    out_ << fmt::format(R"(,"cat":"range","id":"{:#x}","name":{}}})", id,
                        json_text(phase_text(replay(), label)));
  }
  void on_range_begin(uint64_t id, const PhaseLabel& label, uint64_t ticks) override {
    range('b', id, label, ticks);
  }
  void on_range_end(uint64_t id, const PhaseLabel& label, uint64_t ticks) override {
    range('e', id, label, ticks);
  }

  Profile& profile_;
  const std::optional<ScopeId> only_;
  std::ostream& out_;
  const uint32_t pid_;
  const uint64_t start_;
  uint64_t part_ticks_ = 1;
  std::vector<Counter> counters_;
  const char* separator_ = "";
};

}  // namespace

void export_chrome(Profile& profile, const ExportOptions& options, std::ostream& out) {
  std::optional<ScopeId> only;
  if (!options.scope.empty()) only = profile.scope(options.scope);
  Chrome chrome(profile, only ? std::vector<ScopeId>{*only} : profile.scopes(), only, out);
  profile.replay_again(chrome, options.progress);
  chrome.finish();
}

}  // namespace gpupeak::collector
