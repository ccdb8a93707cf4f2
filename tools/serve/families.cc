#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "collector/log/kinds.h"
#include "collector/log/log_head.h"
#include "collector/text/sanitize.h"
#include "tools/serve/serve.h"

namespace gpupeak::tools {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

struct Reason {
  uint64_t bit;
  const char* name;
};
constexpr Reason kReasons[] = {
    {GPUPEAK_Q_NO_LIBUNWIND, "no_libunwind"},
    {GPUPEAK_Q_NO_UNWINDER, "no_unwinder"},
    {GPUPEAK_Q_FOREIGN_MALLOC, "foreign_malloc"},
    {GPUPEAK_Q_DISK_FULL, "disk_full"},
    {GPUPEAK_Q_TRIE_FULL, "stacks_full"},
    {GPUPEAK_Q_DEVICE_TABLE_FULL, "device_table_full"},
    {GPUPEAK_Q_NO_DRIVER, "no_driver"},
    {GPUPEAK_Q_BAD_ENVIRONMENT, "bad_environment"},
    {GPUPEAK_Q_NO_TSC, "no_tsc"},
    {GPUPEAK_Q_LOG_MAX, "log_limit"},
    {GPUPEAK_Q_SECOND_MALLOC, "second_malloc"},
    {GPUPEAK_Q_PYTHON_OFF, "python_off"},
};

constexpr double kNsPerSecond = 1e9;

/// One family, filled log by log.
class Family {
 public:
  Family(const char* name, const char* help, MetricType type = MetricType::Gauge) {
    family_.name = name;
    family_.help = help;
    family_.type = type;
  }
  /// Prometheus refuses the whole answer if one label is no UTF-8, or if two samples of a family
  /// have the same labels.
  void add(Labels labels, double value) {
    std::string all;
    for (ClientMetric::Label& label : labels) {
      label.value = collector::escape(label.value);
      all += label.value + '\0';
    }
    if (!told_.insert(std::move(all)).second) return;
    ClientMetric sample;
    sample.label = std::move(labels);
    (family_.type == MetricType::Counter ? sample.counter.value : sample.gauge.value) = value;
    family_.metric.push_back(std::move(sample));
  }
  void add(Labels labels, std::optional<uint64_t> value) {
    if (value) add(std::move(labels), static_cast<double>(*value));
  }
  MetricFamily take() { return std::move(family_); }

 private:
  MetricFamily family_;
  std::set<std::string> told_;  // the labels' values
};

Labels of_log(const FolderLog& log, Labels more = {}) {
  more.insert(more.begin(), {"log", log.name});
  return more;
}

/// Makes families that have one sample for each log, or for each device of a log.
class OfLogs {
 public:
  OfLogs(const FolderView& view, std::vector<MetricFamily>& out) : view_(view), out_(out) {}

  using Value = std::function<std::optional<uint64_t>(const FolderLog&)>;
  void add(const char* name, const char* help, MetricType type, const Value& value) const {
    Family family(name, help, type);
    for (const FolderLog& log : view_.logs) family.add(of_log(log), value(log));
    out_.push_back(family.take());
  }
  using DeviceValue = std::function<std::optional<uint64_t>(const gpupeak_device_counters&)>;
  /// One sample for each device that had memory.
  void device(const char* name, const char* help, MetricType type, bool live,
              const DeviceValue& value) const {
    Family family(name, help, type);
    each_device(live, [&](const FolderLog& log, uint32_t number) {
      family.add(of_log(log, {{"device", std::to_string(number)}}),
                 value(log.head.counters.device[number]));
    });
    out_.push_back(family.take());
  }
  /// One sample for each kind. A kind that the program never had has no sample.
  void kinds(const char* name, const char* help, bool in_sum, bool live) const {
    Family family(name, help);
    each_device(live, [&](const FolderLog& log, uint32_t number) {
      for (uint8_t kind = GPUPEAK_FIRST_DEVICE_KIND; kind < GPUPEAK_KIND_LIMIT; ++kind) {
        const gpupeak_gauge& gauge = device_gauge(log.head.counters, number, kind);
        if (counts_into_sum(kind) != in_sum || gauge.peak == 0) continue;
        family.add(of_log(log, {{"device", std::to_string(number)},
                                {"kind", std::string(collector::kind_name(kind))}}),
                   std::optional(live ? gauge.live : gauge.peak));
      }
    });
    out_.push_back(family.take());
  }

 private:
  template <typename Visit>
  void each_device(bool live, Visit visit) const {
    for (const FolderLog& log : view_.logs) {
      if (live && !log.is_live()) continue;
      for (uint32_t number = 0; number < GPUPEAK_LOG_MAX_DEVICES; ++number) {
        if (log.head.counters.device[number].alloc_count > 0) visit(log, number);
      }
    }
  }

  const FolderView& view_;
  std::vector<MetricFamily>& out_;
};

void add_device_families(const OfLogs& logs) {
  using Counters = gpupeak_device_counters;
  logs.device("gpupeak_device_live_bytes",
              "Memory of the GPU that the driver has handed out to a program that runs.",
              MetricType::Gauge, true, [](const Counters& of) { return of.total.live; });
  logs.device("gpupeak_device_peak_bytes", "The most that the driver had handed out at once.",
              MetricType::Gauge, false, [](const Counters& of) { return of.total.peak; });
  logs.device("gpupeak_device_allocations_total", "Allocations of the GPU's memory.",
              MetricType::Counter, false, [](const Counters& of) { return of.alloc_count; });
  logs.kinds("gpupeak_device_kind_live_bytes", "gpupeak_device_live_bytes by kind.", true, true);
  logs.kinds("gpupeak_device_kind_peak_bytes",
             "The most of each kind; kinds have theirs at different times.", true, false);
  logs.kinds("gpupeak_device_other_live_bytes",
             "Managed and imported memory and reserved addresses, which count into no sum.", false,
             true);
  logs.kinds("gpupeak_device_other_peak_bytes",
             "The most managed and imported memory and reserved addresses.", false, false);
}

/// Figures of the counters page. `of`: the logs that have it.
void add_counters(const OfLogs& logs) {
  using Page = gpupeak_counters_page;
  enum Of { kAll, kHeap, kLiveHeap, kLive };
  const auto add = [&logs](MetricType type, const char* name, const char* help, auto value,
                           Of of = kAll) {
    logs.add(name, help, type, [=](const FolderLog& log) -> std::optional<uint64_t> {
      const Page& page = log.head.counters;
      if ((of == kLiveHeap || of == kLive) && !log.is_live()) return std::nullopt;
      if ((of == kLiveHeap || of == kHeap) &&
          !collector::coverage_of(log.head.header, page).heap_counters)
        return std::nullopt;
      return std::invoke(value, page);
    });
  };
  const auto gauge = std::bind_front(add, MetricType::Gauge);
  const auto count = std::bind_front(add, MetricType::Counter);
  gauge(
      "gpupeak_host_heap_live_bytes",
      "Usable bytes of the heap, of a program that runs; within 64 KiB a thread.",
      [](const Page& of) { return of.heap.live; }, kLiveHeap);
  gauge(
      "gpupeak_host_heap_peak_bytes", "The most usable bytes of the heap at once.",
      [](const Page& of) { return of.heap.peak; }, kHeap);
  count("gpupeak_host_heap_allocations_total", "Blocks that the heap handed out.",
        &Page::heap_alloc_count, kHeap);
  count("gpupeak_host_heap_frees_total", "Blocks that the heap was given back.",
        &Page::heap_free_count, kHeap);
  gauge(
      "gpupeak_host_pinned_live_bytes", "Pinned host memory of a program that runs.",
      [](const Page& of) { return of.pinned.live; }, kLive);
  gauge("gpupeak_host_pinned_peak_bytes", "The most pinned host memory at once.",
        [](const Page& of) { return of.pinned.peak; });
  gauge("gpupeak_host_rss_peak_bytes", "The process's largest resident set, once it ended.",
        [](const Page& of) {
          return of.rss_peak_bytes > 0 ? std::optional(of.rss_peak_bytes) : std::nullopt;
        });
  count("gpupeak_device_events_total", "Events of the GPUs' memory that were recorded.",
        &Page::device_events);
  count("gpupeak_dropped_events_total", "Events that should have been recorded and were not.",
        &Page::dropped_events);
  count("gpupeak_unmatched_frees_total", "Frees of GPU memory that was never seen allocated.",
        &Page::unmatched_frees);
  count("gpupeak_truncated_stacks_total", "Call stacks that were cut at their outer end.",
        &Page::truncated_stacks);
  count("gpupeak_early_calls_total", "Calls of the allocator before the log was open.",
        &Page::early_calls);
  count("gpupeak_reentrant_calls_total",
        "Calls of the allocator from a signal handler within a hook, which are not recorded.",
        &Page::reentrant_calls);
  count("gpupeak_unread_python_stacks_total", "Events without the Python frames that there were.",
        &Page::unread_python_stacks);
  gauge("gpupeak_self_bytes", "What gpupeak's library has mapped in the program for itself.",
        &Page::self_bytes);
}

void add_runs(const OfLogs& logs) {
  logs.add("gpupeak_run_start_time_seconds", "When the recording began, since 1970.",
           MetricType::Gauge,
           [](const FolderLog& log) { return log.head.header.start_realtime_ns / 1'000'000'000; });
  logs.add("gpupeak_log_size_bytes", "Of the log's file.", MetricType::Gauge,
           [](const FolderLog& log) { return log.bytes(); });
}

void add_ends(const FolderView& view, std::vector<MetricFamily>& out) {
  Family duration("gpupeak_run_duration_seconds", "How long a program ran that has ended.");
  Family code("gpupeak_run_exit_code", "Of a program that `gpupeak run` saw exit.");
  Family signal("gpupeak_run_exit_signal", "Of a program that `gpupeak run` saw a signal end.");
  for (const FolderLog& log : view.logs) {
    const gpupeak_counters_page& page = log.head.counters;
    const uint64_t began = log.head.header.start_monotonic_ns;
    if (page.ended != 0 && page.end_monotonic_ns >= began)
      duration.add(of_log(log), static_cast<double>(page.end_monotonic_ns - began) / kNsPerSecond);
    if (page.exit_kind == GPUPEAK_EXIT_CODE)
      code.add(of_log(log), static_cast<double>(page.exit_code));
    if (page.exit_kind == GPUPEAK_EXIT_SIGNAL)
      signal.add(of_log(log), static_cast<double>(page.exit_code));
  }
  for (Family* family : {&duration, &code, &signal}) out.push_back(family->take());
}

constexpr size_t kUuidBytes = 16;

/// "GPU-10111213-1415-…", as the driver's own tools print it.
std::string uuid_text(const std::string& raw, const std::string& name) {
  std::string text = name.find(" MIG ") != std::string::npos ? "MIG-" : "GPU-";
  for (size_t i = 0; i < raw.size(); ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(raw[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

void add_states(const FolderView& view, const Pods& pods, std::vector<MetricFamily>& out) {
  Family info("gpupeak_log_info", "1; who wrote the log.");
  Family state("gpupeak_run_state", "1 of the state that the program is in, 0 of the others.");
  Family degraded("gpupeak_degraded", "1 where the recording has less than it should, and why.");
  Family device("gpupeak_device_info", "1; which GPU it is.");
  Family capacity("gpupeak_device_capacity_bytes", "Memory of the GPU, as the driver says.");
  for (const FolderLog& log : view.logs) {
    const gpupeak_file_header& header = log.head.header;
    Labels who = {{"pid", std::to_string(header.pid)}};
    if (header.rank >= 0) who.push_back({"rank", std::to_string(header.rank)});
    if (!log.facts.program.empty()) who.push_back({"program", log.facts.program});
    if (!log.facts.host.empty()) who.push_back({"host", log.facts.host});
    for (const auto& [label, value] : pods.labels_of(log)) who.push_back({label, value});
    info.add(of_log(log, std::move(who)), 1.0);
    for (size_t i = 0; i < std::size(collector::kLogStates); ++i)
      state.add(of_log(log, {{"state", collector::kLogStates[i]}}),
                static_cast<size_t>(log.state) == i ? 1.0 : 0.0);
    for (const Reason& reason : kReasons)
      degraded.add(of_log(log, {{"reason", reason.name}}),
                   (log.head.counters.quality & reason.bit) != 0 ? 1.0 : 0.0);
    for (const collector::DeviceInfo& of : log.facts.devices) {
      const std::string number = std::to_string(of.ordinal);
      Labels which = {{"device", number}, {"name", of.name}};
      // Label names of dcgm-exporter, so that its series can be joined with ours.
      which.push_back({"gpu", number});
      if (of.uuid.size() == kUuidBytes) which.push_back({"UUID", uuid_text(of.uuid, of.name)});
      if (!log.facts.host.empty()) which.push_back({"Hostname", log.facts.host});
      device.add(of_log(log, std::move(which)), 1.0);
      if (of.total_bytes > 0)
        capacity.add(of_log(log, {{"device", number}}), std::optional(of.total_bytes));
    }
  }
  for (Family* family : {&info, &state, &degraded, &device, &capacity})
    out.push_back(family->take());
}

void add_folder(const FolderView& view, std::vector<MetricFamily>& out) {
  Family logs("gpupeak_logs", "Logs that are shown, by the state of their programs.");
  for (size_t i = 0; i < std::size(collector::kLogStates); ++i) {
    const auto count = std::count_if(view.logs.begin(), view.logs.end(), [i](const FolderLog& log) {
      return static_cast<size_t>(log.state) == i;
    });
    logs.add({{"state", collector::kLogStates[i]}}, static_cast<double>(count));
  }
  Family left_out("gpupeak_logs_left_out", "Older logs beyond the most that are shown.");
  left_out.add({}, std::optional<uint64_t>(view.left_out));
  Family unreadable("gpupeak_logs_unreadable", "Files that are named as logs and cannot be read.");
  unreadable.add({}, std::optional<uint64_t>(view.unreadable));
  Family build("gpupeak_build_info", "1; which gpupeak this is.");
  build.add({{"version", GPUPEAK_VERSION}}, 1.0);
  for (Family* family : {&logs, &left_out, &unreadable, &build}) out.push_back(family->take());
}

}  // namespace

std::vector<MetricFamily> metric_families(const FolderView& view, const Pods& pods) {
  std::vector<MetricFamily> families;
  const OfLogs logs(view, families);
  add_device_families(logs);
  add_counters(logs);
  add_runs(logs);
  add_ends(view, families);
  add_states(view, pods, families);
  add_folder(view, families);
  std::erase_if(families, [](const MetricFamily& family) { return family.metric.empty(); });
  return families;
}

}  // namespace gpupeak::tools
