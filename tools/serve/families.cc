#include <algorithm>
#include <set>

#include "collector/log/kinds.h"
#include "collector/log/log_head.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "tools/serve/serve.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::pair<uint64_t, const char*> kReasons[] = {
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

/// Families that are filled sample by sample. A family's place is that of its first sample, also of
/// one that is left out.
class Families {
 public:
  /// `is_there`: whether there is such a sample. Prometheus refuses the whole answer if one label
  /// is no UTF-8, or if two samples of a family have the same labels.
  template <typename Number>
  void gauge(const char* name, const char* help, Labels labels, Number value,
             bool is_there = true) {
    add(MetricType::Gauge, name, help, std::move(labels), static_cast<double>(value), is_there);
  }
  void count(const char* name, const char* help, Labels labels, uint64_t value,
             bool is_there = true) {
    add(MetricType::Counter, name, help, std::move(labels), static_cast<double>(value), is_there);
  }
  /// The families that have samples.
  std::vector<MetricFamily> take() {
    std::erase_if(all_, [](const MetricFamily& family) { return family.metric.empty(); });
    return std::move(all_);
  }

 private:
  void add(MetricType type, const char* name, const char* help, Labels labels, double value,
           bool is_there) {
    const auto [place, is_new] = places_.emplace(name, all_.size());
    if (is_new) all_.push_back({name, help, type, {}});
    if (!is_there) return;
    std::string all = name;
    for (ClientMetric::Label& label : labels) {
      label.value = collector::escape(label.value);
      all += '\0' + label.value;
    }
    if (!told_.insert(std::move(all)).second) return;
    ClientMetric& sample = all_[place->second].metric.emplace_back();
    sample.label = std::move(labels);
    (type == MetricType::Counter ? sample.counter.value : sample.gauge.value) = value;
  }

  std::vector<MetricFamily> all_;
  std::map<std::string, size_t> places_;  // by name
  std::set<std::string> told_;            // names and labels' values
};

Labels of_log(const FolderLog& log, Labels more = {}) {
  more.insert(more.begin(), {"log", log.name});
  return more;
}

/// None as long as too little was seen: of a file that is printed once there never is.
void add_growth(const char* name, const FolderLog& log, Labels labels,
                const collector::MemoryCurve& curve, Families& to) {
  const std::optional<double> growth = log.is_live() ? collector::growth_of(curve) : std::nullopt;
  to.gauge(name, "Growth in a second, by a straight line through the looks of the last minute.",
           std::move(labels), growth.value_or(0), growth.has_value());
}

/// The devices that had memory. A kind that the program never had has no sample.
void add_devices(const FolderLog& log, Families& to) {
  const bool live = log.is_live();
  for (uint32_t number = 0; number < GPUPEAK_LOG_MAX_DEVICES; ++number) {
    const gpupeak_device_counters& of = log.head.counters.device[number];
    if (of.alloc_count == 0) continue;
    const Labels device = of_log(log, {{"device", std::to_string(number)}});
    to.gauge("gpupeak_device_live_bytes",
             "Memory of the GPU that the driver has handed out to a program that runs.", device,
             of.total.live, live);
    add_growth("gpupeak_device_growth_bytes_per_second", log, device, log.looks->devices[number],
               to);
    to.gauge("gpupeak_device_peak_bytes", "The most that the driver had handed out at once.",
             device, of.total.peak);
    to.count("gpupeak_device_allocations_total", "Allocations of the GPU's memory.", device,
             of.alloc_count);
    for (uint8_t kind = GPUPEAK_FIRST_DEVICE_KIND; kind < GPUPEAK_KIND_LIMIT; ++kind) {
      const gpupeak_gauge& gauge = device_gauge(log.head.counters, number, kind);
      const bool is_other = !counts_into_sum(kind), had = gauge.peak != 0;
      Labels labels = device;
      labels.push_back({"kind", std::string(collector::kind_name(kind))});
      to.gauge("gpupeak_device_kind_live_bytes", "gpupeak_device_live_bytes by kind.", labels,
               gauge.live, had && live && !is_other);
      to.gauge("gpupeak_device_kind_peak_bytes",
               "The most of each kind; kinds have theirs at different times.", labels, gauge.peak,
               had && !is_other);
      to.gauge("gpupeak_device_other_live_bytes",
               "Managed and imported memory and reserved addresses, which count into no sum.",
               labels, gauge.live, had && live && is_other);
      to.gauge("gpupeak_device_other_peak_bytes",
               "The most managed and imported memory and reserved addresses.", labels, gauge.peak,
               had && is_other);
    }
  }
}

/// Figures of the counters page, and how the program ended.
void add_counters(const FolderLog& log, Families& to) {
  const gpupeak_file_header& header = log.head.header;
  const gpupeak_counters_page& of = log.head.counters;
  const bool live = log.is_live(), heap = collector::coverage_of(header, of).heap_counters;
  const auto gauge = [&](const char* name, const char* help, auto value, bool is_there = true) {
    to.gauge(name, help, of_log(log), value, is_there);
  };
  const auto count = [&](const char* name, const char* help, uint64_t value, bool is_there = true) {
    to.count(name, help, of_log(log), value, is_there);
  };
  gauge("gpupeak_host_heap_live_bytes",
        "Usable bytes of the heap, of a program that runs; within 64 KiB a thread.", of.heap.live,
        heap && live);
  add_growth("gpupeak_host_heap_growth_bytes_per_second", log, of_log(log), log.looks->heap, to);
  gauge("gpupeak_host_heap_peak_bytes", "The most usable bytes of the heap at once.", of.heap.peak,
        heap);
  count("gpupeak_host_heap_allocations_total", "Blocks that the heap handed out.",
        of.heap_alloc_count, heap);
  count("gpupeak_host_heap_frees_total", "Blocks that the heap was given back.", of.heap_free_count,
        heap);
  gauge("gpupeak_host_pinned_live_bytes", "Pinned host memory of a program that runs.",
        of.pinned.live, live);
  gauge("gpupeak_host_pinned_peak_bytes", "The most pinned host memory at once.", of.pinned.peak);
  gauge("gpupeak_host_rss_peak_bytes", "The process's largest resident set, once it ended.",
        of.rss_peak_bytes, of.rss_peak_bytes > 0);
  count("gpupeak_device_events_total", "Events of the GPUs' memory that were recorded.",
        of.device_events);
  count("gpupeak_dropped_events_total", "Events that should have been recorded and were not.",
        of.dropped_events);
  count("gpupeak_unmatched_frees_total", "Frees of GPU memory that was never seen allocated.",
        of.unmatched_frees);
  count("gpupeak_truncated_stacks_total", "Call stacks that were cut at their outer end.",
        of.truncated_stacks);
  count("gpupeak_early_calls_total", "Calls of the allocator before the log was open.",
        of.early_calls);
  count("gpupeak_reentrant_calls_total",
        "Calls of the allocator from a signal handler within a hook, which are not recorded.",
        of.reentrant_calls);
  count("gpupeak_unread_python_stacks_total", "Events without the Python frames that there were.",
        of.unread_python_stacks);
  gauge("gpupeak_self_bytes", "What gpupeak's library has mapped in the program for itself.",
        of.self_bytes);
  gauge("gpupeak_run_start_time_seconds", "When the recording began, since 1970.",
        header.start_realtime_ns / 1'000'000'000);
  gauge("gpupeak_log_size_bytes", "Of the log's file.", log.bytes());
  const uint64_t ran_ns = of.end_monotonic_ns - header.start_monotonic_ns;
  gauge("gpupeak_run_duration_seconds", "How long a program ran that has ended.",
        static_cast<double>(ran_ns) / collector::kNsPerSecond,
        of.ended != 0 && of.end_monotonic_ns >= header.start_monotonic_ns);
  gauge("gpupeak_run_exit_code", "Of a program that `gpupeak run` saw exit.", of.exit_code,
        of.exit_kind == GPUPEAK_EXIT_CODE);
  gauge("gpupeak_run_exit_signal", "Of a program that `gpupeak run` saw a signal end.",
        of.exit_code, of.exit_kind == GPUPEAK_EXIT_SIGNAL);
}

void add_states(const FolderLog& log, const Pods& pods, Families& to) {
  const gpupeak_file_header& header = log.head.header;
  Labels who = {{"pid", std::to_string(header.pid)}};
  if (header.rank >= 0) who.push_back({"rank", std::to_string(header.rank)});
  if (!log.facts.program.empty()) who.push_back({"program", log.facts.program});
  if (!log.facts.host.empty()) who.push_back({"host", log.facts.host});
  for (const auto& [label, value] : pods.labels_of(log)) who.push_back({label, value});
  to.gauge("gpupeak_log_info", "1; who wrote the log.", of_log(log, std::move(who)), 1);
  for (size_t i = 0; i < std::size(collector::kLogStates); ++i)
    to.gauge("gpupeak_run_state", "1 of the state that the program is in, 0 of the others.",
             of_log(log, {{"state", collector::kLogStates[i]}}),
             static_cast<size_t>(log.state) == i);
  for (const auto& [bit, reason] : kReasons)
    to.gauge("gpupeak_degraded", "1 where the recording has less than it should, and why.",
             of_log(log, {{"reason", reason}}), (log.head.counters.quality & bit) != 0);
  for (const collector::DeviceInfo& of : log.facts.devices) {
    const std::string number = std::to_string(of.ordinal);
    Labels which = {{"device", number}, {"name", of.name}};
    // Label names of dcgm-exporter, so that its series can be joined with ours.
    which.push_back({"gpu", number});
    const std::string uuid = collector::Sanitizer().gpu_uuid(of.uuid, of.name);
    if (!uuid.empty()) which.push_back({"UUID", uuid});
    if (!log.facts.host.empty()) which.push_back({"Hostname", log.facts.host});
    to.gauge("gpupeak_device_info", "1; which GPU it is.", of_log(log, std::move(which)), 1);
    to.gauge("gpupeak_device_capacity_bytes", "Memory of the GPU, as the driver says.",
             of_log(log, {{"device", number}}), of.total_bytes, of.total_bytes > 0);
  }
}

}  // namespace

std::vector<MetricFamily> log_families(std::span<const FolderLog> logs, const Pods& pods) {
  Families all;
  for (const FolderLog& log : logs) add_devices(log, all);
  for (const FolderLog& log : logs) add_counters(log, all);
  for (const FolderLog& log : logs) add_states(log, pods, all);
  return all.take();
}

std::vector<MetricFamily> folder_families(const FolderView& view,
                                          const std::vector<NvmlHeld>& on_cards) {
  Families all;
  for (const NvmlHeld& held : on_cards) {
    const auto log = std::ranges::find_if(view.logs, [&](const FolderLog& known) {
      return known.is_live() && known.head.header.pid == static_cast<uint32_t>(held.process);
    });
    std::string program = kernel_text(of_process(held.process, "comm")).value_or("");
    if (program.ends_with('\n')) program.pop_back();
    all.gauge("gpupeak_process_device_bytes",
              "Memory of a card by process, by NVML, recorded (log) or not.",
              {{"device", std::to_string(held.index)},
               {"UUID", held.uuid},
               {"pid", std::to_string(held.process)},
               {"program", program},
               {"log", log != view.logs.end() ? log->name : ""}},
              held.bytes);
  }
  for (size_t i = 0; i < std::size(collector::kLogStates); ++i) {
    const auto is_in = [i](const FolderLog& log) { return static_cast<size_t>(log.state) == i; };
    all.gauge("gpupeak_logs", "Logs that are shown, by the state of their programs.",
              {{"state", collector::kLogStates[i]}}, std::ranges::count_if(view.logs, is_in));
  }
  all.gauge("gpupeak_logs_left_out", "Older logs beyond the most that are shown.", {},
            view.left_out);
  all.gauge("gpupeak_logs_unreadable", "Files that are named as logs and cannot be read.", {},
            view.unreadable);
  all.gauge("gpupeak_build_info", "1; which gpupeak this is.", {{"version", GPUPEAK_VERSION}}, 1);
  return all.take();
}

}  // namespace gpupeak::tools
