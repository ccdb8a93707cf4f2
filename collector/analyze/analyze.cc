#include "collector/analyze/analyze.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"
#include "collector/log/log_head.h"
#include "collector/replay/replay.h"
#include "collector/symbols/symbolizer.h"
#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kLabelPrefix = "label.";
constexpr uint64_t kNsPerSecond = 1'000'000'000;

/// Whether the log says when the memory was used that the program has from the driver itself. No
/// option is needed for that where every launch was looked at.
bool has_uses_of_driver(const Definitions& definitions) {
  return has_uses(definitions) ||
         (definitions.fact("roles") == "on" && definitions.fact("launches").empty());
}

std::string iso_time(uint64_t realtime_ns) {
  const auto seconds = static_cast<time_t>(realtime_ns / kNsPerSecond);
  struct tm utc {};
  if (gmtime_r(&seconds, &utc) == nullptr) return "";
  char text[32];
  return {text, strftime(text, sizeof text, "%FT%TZ", &utc)};
}

class SummaryBuilder {
 public:
  SummaryBuilder(Profile& profile, const Options& options)
      : profile_(profile),
        log_(profile.log()),
        replay_(profile.replay()),
        options_(options),
        coverage_(profile.coverage()),
        by_site_(profile.sites()),
        by_choice_(options.by == GroupBy::kSite
                       ? by_site_
                       : other_.emplace(replay_, profile.titles(), options.by, &profile.tagger())) {
  }

  Summary build() {
    const Definitions& definitions = log_.definitions();
    summary_.rules = {profile_.rules().sets, profile_.rules().automatic};
    summary_.confidential = log_.definitions().sanitizer().is_confidential();
    summary_.names_were_looked_for = options_.reading.search.files;
    summary_.log_path = log_.definitions().shown(profile_.path());
    summary_.log_bytes = log_.used_bytes();
    summary_.tool_version = log_.tool_version();
    summary_.log_format = log_.header().version;
    summary_.grouped_by = group_by_name(options_.by);
    // Most of the time would go into the names of the host's rows.
    has_host_rows_ = options_.all_tables || !live("device");
    tell_calls_apart(replay_, profile_.titles(), has_host_rows_);
    GroupTotals totals(replay_);
    summary_.run = run_of(log_);
    summary_.run.duration_ns = duration_ns(log_, replay_);
    summary_.metrics = process_metrics(replay_, totals, coverage_);
    list_devices(totals);
    list_peaks();
    summary_.phases =
        summarize_phases(replay_, totals, by_site_, coverage_,
                         {summary_.run.duration_ns, options_.all_tables, has_host_rows_});
    const bool with_host = has_host_rows_ && knows_host_growth(replay_, coverage_);
    summary_.growth = summarize_growth(replay_, by_site_, with_host);
    add_growth_metrics(summary_, with_host);
    list_arenas();
    summary_.has_uses =
        summary_.arenas.empty() ? has_uses_of_driver(definitions) : has_uses(definitions);
    list_marks();
    list_failures();
    if (has_host_rows_) {
      list_live_at_exit(std::move(totals.live));
      list_temporaries(std::move(totals.temporaries));
    }
    summary_.quality = assess_quality(replay_, coverage_, profile_.symbolizer().warnings());
    if (summary_.quality.events_lost)
      set_to_counted({log_.header(), log_.counters(), log_.used_bytes()}, summary_);
    return std::move(summary_);
  }

 private:
  void list_devices(const GroupTotals& totals) {
    std::map<int32_t, DeviceSummary> devices;
    for (const DeviceInfo& info : log_.definitions().devices()) {
      const auto ordinal = static_cast<int32_t>(info.ordinal);
      DeviceSummary& device = devices[ordinal];
      device.ordinal = ordinal;
      device.uuid = log_.definitions().sanitizer().gpu_uuid(info.uuid, info.name);
      device.name = escape(info.name);
      device.total_bytes = info.total_bytes;
      if (const auto limit = run_limit(log_.definitions(), info.ordinal); limit && limit->holds)
        device.limit = {limit->bytes, limit->real_bytes, limit->card};
      const auto has = [&](uint64_t bit) { return (info.memory & bit) != 0; };
      if (has(GPUPEAK_MEMORY_KNOWN)) {
        device.memory = {has(GPUPEAK_MEMORY_INTEGRATED), has(GPUPEAK_MEMORY_PAGEABLE),
                         has(GPUPEAK_MEMORY_HOST_PAGE_TABLES),
                         has(GPUPEAK_MEMORY_CONCURRENT_MANAGED)};
      }
    }
    for (const ScopeInfo& scope : replay_.sites().scopes()) {
      if (scope.device >= 0) devices[scope.device].ordinal = scope.device;
    }
    for (const int32_t device : counted_devices(log_.counters())) {
      if (log_.counters().dropped_events > 0) devices[device].ordinal = device;
    }
    for (auto& [ordinal, device] : devices) {
      device.metrics = device_metrics(replay_, totals, ordinal);
      add_ledger(device);
      summary_.devices.push_back(std::move(device));
    }
    // If there are several devices, each has its own ledger: their sum would be of no instant.
    add_ledger_metrics(nullptr, std::nullopt, summary_.metrics);
    if (summary_.devices.size() == 1) {
      for (const auto& [name, value] : summary_.devices.front().metrics)
        summary_.metrics[name] = value;
    }
  }

  void add_ledger(DeviceSummary& device) {
    const DeviceLedger* ledger = value_in(replay_.device().ledgers(), device.ordinal);
    if (ledger != nullptr) {
      device.ledger = summarize_ledger(
          *ledger, [this](uint64_t ticks) { return log_.clock().to_ns(ticks); }, log_.definitions(),
          [this](uint8_t cause, uint32_t name, uint32_t api, uint32_t stack) {
            return ledger_item_name(cause, name, api, stack);
          },
          options_.top);
    }
    add_ledger_metrics(ledger, device.ledger, device.metrics);
  }

  /// The name of an item: code by the library that it is in, local memory by the function that
  /// needs it.
  std::string ledger_item_name(uint8_t cause, uint32_t name, uint32_t api, uint32_t stack) {
    const bool defined = stack < log_.definitions().logged_node_count();
    if (cause == GPUPEAK_LEDGER_LOCAL_MEMORY && name != 0) {
      const std::string function = demangle(std::string(log_.definitions().string(name)));
      return log_.definitions().shown(function);
    }
    const std::string module = by_site_.site_module(defined ? stack : 0);
    if (cause == GPUPEAK_LEDGER_CODE && !module.empty()) return module;
    if (name != 0) return log_.definitions().shown_string(name);
    const std::string by = log_.definitions().shown_string(api);
    return by.empty() ? "not known" : by;
  }

  /// Whether the sum does not only repeat another one, as that of all devices does if there is one,
  /// and that of device and host if there is no device.
  bool worth_showing(const ScopeInfo& info) const {
    if (!covers_scope(coverage_, info.name)) return false;
    if (info.name == "total") return total_differs_;
    const bool all_devices = info.device < 0 && info.name.starts_with("device");
    return !all_devices || summary_.devices.size() != 1;
  }

  /// Whether anything of the scope was ever live.
  bool live(const std::string& name) const { return replay_.sum(name).peak > 0; }

  void list_peaks() {
    const std::vector<ScopeInfo>& scopes = replay_.sites().scopes();
    const bool managed_counts = std::ranges::any_of(
        summary_.devices, [](const DeviceSummary& device) { return device.is_integrated(); });
    total_differs_ = (live("device") || (managed_counts && live("device/managed"))) && live("host");
    for (ScopeId id{}; id < scopes.size(); ++id) {
      if (replay_.peaks().scope(id).peak > 0 && worth_showing(scopes[id])) add_peak(id);
    }
    std::ranges::sort(summary_.peaks, {}, &Peak::scope);
  }

  void add_peak(ScopeId id) {
    const PeakFinder::Scope& scope = replay_.peaks().scope(id);
    Peak& peak = summary_.peaks.emplace_back();
    peak.scope = replay_.sites().scopes()[id].name;
    peak.bytes = scope.peak;
    peak.time_ns = log_.clock().to_ns(scope.peak_ticks);
    const bool has_rows = has_host_rows_ || peak.scope.starts_with("device");
    if (scope.peak_group != kNoGroup) {
      peak.phase = by_site_.program_phase_name(replay_.sites().context_of(scope.peak_group).phase);
      if (has_rows)
        peak.trigger = by_site_.holder({scope.peak_group, scope.peak_step_bytes, 1}, false);
    }
    if (!has_rows) return;
    const PeakParts parts = parts_at_peak(replay_, id);
    const RowRoles roles(replay_, id);
    const bool inside = by_choice_.by() == GroupBy::kSite;
    add_holders(replay_, by_site_, by_choice_, parts,
                inside ? std::vector<Contribution>() : contributions_at_peak(replay_, id),
                options_.top, options_.stacks, peak, &roles);
    if (peak.scope.find('/') == std::string::npos) peak.tags = tag_shares(parts);
  }

  std::vector<TagShare> tag_shares(const PeakParts& parts) {
    std::map<uint32_t, TagShare> by_tag;
    for (const Contribution& part : parts.outside)
      add_part(by_tag[profile_.tagger().tag(part.group)], part);
    for (const ArenaPart& part : parts.in_arenas)
      add_part(by_tag[profile_.tagger().tag(*part.holder)], part);
    std::vector<TagShare> shares;
    for (auto& [tag, share] : by_tag) {
      share.name = profile_.tagger().name(tag);
      shares.push_back(std::move(share));
    }
    if (shares.size() == 1 && shares.front().name == kOthers) return {};
    std::ranges::stable_sort(shares, std::ranges::greater(), &TagShare::bytes);
    std::stable_partition(shares.begin(), shares.end(),
                          [](const TagShare& share) { return share.name != kOthers; });
    return shares;
  }

  void list_arenas() {
    summary_.arenas = summarize_arenas(replay_, by_site_, options_.top);
    summary_.driver_pools = summarize_driver_pools(replay_, by_site_, options_.top);
  }

  void list_failures() {
    summary_.oom = summarize_failures(replay_, by_site_, summary_.growth, options_.top);
    summary_.oom_count = replay_.device().failure_count() + replay_.arenas().failure_count();
    for (const OutOfMemory& oom : summary_.oom) summary_.oom_count -= oom.told_by_arena;
  }

  void list_marks() {
    summary_.mark_count = replay_.mark_count();
    for (const Mark& mark : replay_.marks()) {
      MarkSummary& out = summary_.marks.emplace_back();
      out.name = log_.definitions().shown(replay_.name(mark.name));
      out.source = phase_source_name(mark.source);
      if (mark.source == GPUPEAK_PHASE_NVTX)
        out.domain = log_.definitions().shown_string(static_cast<uint32_t>(mark.instance));
      out.category = log_.definitions().shown_string(mark.category);
      out.time_ns = log_.clock().to_ns(mark.ticks);
      if (mark.source != GPUPEAK_PHASE_MARK) out.thread_id = mark.tid;
      out.device_bytes = mark.device_bytes;
      if (coverage_.host()) out.host_bytes = mark.host_bytes;
    }
  }

  /// Whether the log covers this kind.
  bool covers(uint8_t kind) const { return is_device_kind(kind) || coverage_.host(); }

  void list_live_at_exit(std::vector<Contribution> live) {
    std::erase_if(live, [this](const Contribution& held) {
      const uint8_t kind = replay_.sites().context_of(held.group).kind;
      return !counts_into_sum(kind) || !covers(kind);
    });
    summary_.live_at_exit = by_site_.table(live, options_.top, options_.stacks).rows;
  }

  void list_temporaries(std::vector<Contribution> temporaries) {
    std::erase_if(temporaries, [this](const Contribution& freed) {
      return !covers(replay_.sites().context_of(freed.group).kind);
    });
    summary_.temporaries = by_site_.table(temporaries, options_.top, false).rows;
    for (Holder& row : summary_.temporaries) row.bytes = 0;
  }

  Profile& profile_;
  const LogReader& log_;
  const Replay& replay_;
  const Options& options_;
  const Coverage& coverage_;
  Attribution& by_site_;
  std::optional<Attribution> other_;
  Attribution& by_choice_;
  bool total_differs_ = false;
  bool has_host_rows_ = true;
  Summary summary_;
};

}  // namespace

RunSummary run_of(const LogReader& log) {
  const gpupeak_file_header& header = log.header();
  const Definitions& definitions = log.definitions();
  RunSummary run;
  for (const auto& [key, value] : definitions.facts()) {
    if (key == "arg") run.command.push_back(definitions.shown(value));
    if (key.starts_with(kLabelPrefix))
      run.labels[definitions.shown(key.substr(kLabelPrefix.size()))] = definitions.shown(value);
  }
  run.host = definitions.shown_fact("host");
  run.pid = header.pid;
  run.ppid = header.ppid;
  if (header.rank >= 0) run.rank = header.rank;
  run.start_time = iso_time(header.start_realtime_ns);
  run.end = run_end(log.counters());
  return run;
}

int64_t duration_ns(const LogReader& log, const Replay& replay) {
  const int64_t last = log.clock().to_ns(replay.last_ticks());
  const gpupeak_counters_page& page = log.counters();
  // A process that left without an end may have gone on since the last event; `run` knows until
  // when.
  const uint64_t end = page.ended != 0 ? page.end_monotonic_ns : page.exit_monotonic_ns;
  if (end <= log.header().start_monotonic_ns) return last;
  const uint64_t to_end = end - log.header().start_monotonic_ns;
  return std::max(last, static_cast<int64_t>(std::min<uint64_t>(to_end, INT64_MAX)));
}

Summary analyze(const std::string& path, const Options& options, const Progress& progress) {
  auto log = std::make_unique<LogReader>(path, options.reading.sanitizer, options.reading.heap);
  Summary summary = analyze(*log, path, options, progress);
  if (options.complete != nullptr) options.complete(summary, *log, options, progress);
  if (options.process_ends) static_cast<void>(log.release());
  return summary;
}

Summary analyze(const LogReader& log, const std::string& path, const Options& options,
                const Progress& progress, ReplayObserver* observer) {
  auto profile = std::make_unique<Profile>(log, path, progress, observer, options.reading);
  Summary summary = summarize(*profile, options);
  if (options.process_ends) {
    profile->symbolizer().keep_names();
    static_cast<void>(profile.release());
  }
  return summary;
}

Summary summarize(Profile& profile, const Options& options) {
  return SummaryBuilder(profile, options).build();
}

}  // namespace gpupeak::collector
