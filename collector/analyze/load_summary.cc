#include "collector/analyze/load_summary.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "collector/analyze/kept_summary.h"
#include "collector/files/regular_file.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSchemaPrefix = "gpupeak.summary/";
constexpr std::string_view kSchema = "gpupeak.summary/1";

[[noreturn]] void refuse(const char* what) {
  throw std::invalid_argument(what);
}

/// A file edited by hand may hold anything. Null, for what is missing, is an empty object and list.
const Json& field(const Json& json, const char* name) {
  static const Json none;
  if (json.is_null()) return none;
  if (!json.is_object()) refuse("what should have fields has none");
  const auto found = json.find(name);
  return found == json.end() ? none : *found;
}

const Json& object(const Json& json, const char* name) {
  const Json& value = field(json, name);
  if (!value.is_object() && !value.is_null()) refuse("a field has another type");
  return value;
}

std::string text(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_null() ? "" : escape(value.get_ref<const std::string&>());
}

template <class T>
T number(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_null() ? T{} : value.get<T>();
}

template <class T>
std::optional<T> maybe(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_null() ? std::nullopt : std::optional<T>(value.get<T>());
}

std::optional<std::string> maybe_text(const Json& json, const char* name) {
  return field(json, name).is_null() ? std::nullopt : std::optional(text(json, name));
}

/// Bytes and counts: a negative one or a fraction is no figure of ours.
uint64_t count(const Json& value) {
  if (!value.is_number_unsigned()) refuse("a figure is no whole number");
  return value.get<uint64_t>();
}

uint64_t count(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_null() ? 0 : count(value);
}

template <class Read>
auto list(const Json& json, const char* name, Read read) {
  std::vector<decltype(read(json))> values;
  const Json& array = field(json, name);
  if (!array.is_array() && !array.is_null()) refuse("a list is none");
  for (const Json& value : array) values.push_back(read(value));
  return values;
}

Metrics metrics_of(const Json& json) {
  Metrics metrics;
  for (const auto& [name, value] : object(json, "metrics").items()) {
    metrics[escape(name)] = value.is_null() ? std::nullopt : std::optional(count(value));
  }
  return metrics;
}

SitePart part_of(const Json& json) {
  SitePart part;
  part.frame.function = text(json, "function");
  part.frame.module = text(json, "module");
  part.frame.file = text(json, "file");
  part.frame.line = number<int>(json, "line");
  part.frame.is_python = text(json, "language") == "python";
  part.frame.name_source = parse_name_source(text(json, "name_source"));
  part.run = number<uint32_t>(json, "frames");
  const std::string offset = text(json, "offset");
  part.of_library = part.run > 0 && offset.empty();
  if (!offset.empty()) part.frame.offset = strtoull(offset.c_str(), nullptr, 16);
  return part;
}

Holder holder_of(const Json& json) {
  Holder holder;
  holder.title = text(json, "site");
  holder.kind = text(json, "kind");
  holder.bytes = count(json, "bytes");
  holder.count = count(json, "count");
  holder.api = text(json, "api");
  holder.module = text(json, "module");
  holder.phase = maybe_text(json, "phase");
  holder.thread_id = maybe<uint32_t>(json, "thread");
  holder.temporary = number<bool>(json, "temporary");
  holder.error_bytes = maybe<uint64_t>(json, "error_bytes");
  holder.parts = list(json, "parts", part_of);
  return holder;
}

Peak peak_of(const Json& json) {
  Peak peak;
  peak.scope = text(json, "scope");
  peak.bytes = count(json, "bytes");
  peak.time_ns = number<int64_t>(json, "time_ns");
  peak.phase = maybe_text(json, "phase");
  peak.holders = list(json, "holders", holder_of);
  peak.error_bytes = maybe<uint64_t>(json, "error_bytes");
  peak.other_bytes = count(json, "other_bytes");
  peak.other_sites = count(json, "other_sites");
  return peak;
}

std::optional<Holder> maybe_holder(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_null() ? std::nullopt : std::optional(holder_of(value));
}

PhaseSummary phase_of(const Json& json) {
  PhaseSummary phase;
  phase.name = text(json, "name");
  phase.source = text(json, "source");
  phase.parent = maybe_text(json, "parent");
  phase.count = count(json, "count");
  phase.begin_ns = number<int64_t>(json, "begin_ns");
  phase.end_ns = maybe<int64_t>(json, "end_ns");
  phase.metrics = metrics_of(json);
  phase.biggest_new_device_site = maybe_holder(json, "biggest_new_device_site");
  phase.biggest_new_host_site = maybe_holder(json, "biggest_new_host_site");
  return phase;
}

DeviceSummary device_of(const Json& json) {
  // The ledger's metrics are all that comparisons need of it, and of the memory they need nothing.
  return {number<int32_t>(json, "ordinal"),
          text(json, "uuid"),
          text(json, "name"),
          count(json, "total_bytes"),
          metrics_of(json),
          std::nullopt,
          std::nullopt,
          std::nullopt};
}

RunSummary run_of(const Json& json) {
  RunSummary run;
  run.command = list(json, "command",
                     [](const Json& word) { return escape(word.get_ref<const std::string&>()); });
  run.host = text(json, "host");
  run.pid = number<uint32_t>(json, "pid");
  run.ppid = number<uint32_t>(json, "ppid");
  run.rank = maybe<int32_t>(json, "rank");
  run.start_time = text(json, "start_time");
  run.duration_ns = number<int64_t>(json, "duration_ns");
  const Json& exit = field(json, "exit");
  const std::string kind = text(exit, "kind");
  if (kind == "exit") run.end.kind = ExitKind::kExit;
  if (kind == "signal") run.end.kind = ExitKind::kSignal;
  run.end.code = number<int32_t>(exit, "code");
  for (const auto& [name, value] : object(json, "labels").items()) {
    run.labels[escape(name)] = escape(value.get_ref<const std::string&>());
  }
  return run;
}

Quality quality_of(const Json& json) {
  Quality quality;
  quality.exact = number<bool>(json, "exact");
  quality.events_lost = maybe<bool>(json, "events_lost").value_or(false);
  quality.log_complete = number<bool>(json, "log_complete");
  quality.heap_sample_bytes = maybe<uint64_t>(json, "heap_sample_bytes").value_or(0);
  quality.events = count(json, "events");
  quality.device_events = count(json, "device_events");
  quality.host_events = count(json, "host_events");
  quality.dropped_events = count(json, "dropped_events");
  quality.warnings = list(json, "warnings", [](const Json& warning) {
    return Warning{parse_warning_code(text(warning, "code")), text(warning, "message"), ""};
  });
  return quality;
}

WholeRun::Sum sum_of(const Json& json) {
  WholeRun::Sum sum;
  sum.node = text(json, "node");
  sum.name = text(json, "name");
  sum.uuid = text(json, "uuid");
  sum.ordinal = maybe<int32_t>(json, "ordinal");
  sum.total_bytes = count(json, "total_bytes");
  sum.peak_bytes = maybe<uint64_t>(json, "peak_bytes");
  sum.error_bytes = maybe<uint64_t>(json, "error_bytes");
  sum.sum_of_peaks_bytes = maybe<uint64_t>(json, "sum_of_peaks_bytes");
  sum.peak_time_ns = number<int64_t>(json, "peak_time_ns");
  return sum;
}

std::optional<WholeRun::Sum> maybe_sum(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_null() ? std::nullopt : std::optional(sum_of(value));
}

WholeRun::Process process_of(const Json& json) {
  WholeRun::Process process;
  process.log = text(json, "log");
  process.pid = number<uint32_t>(json, "pid");
  process.rank = maybe<int32_t>(json, "rank");
  process.program = text(json, "program");
  process.started = number<bool>(json, "started");
  process.devices = list(json, "devices", [](const Json& held) {
    return WholeRun::OfDevice{count(held, "device"),
                              count(held, "peak_bytes"),
                              maybe<uint64_t>(held, "at_peak_bytes"),
                              {}};
  });
  process.device_peak_bytes = maybe<uint64_t>(json, "device_peak_bytes");
  process.host_peak_bytes = maybe<uint64_t>(json, "host_peak_bytes");
  process.heap_peak_bytes = maybe<uint64_t>(json, "heap_peak_bytes");
  process.forked = number<bool>(json, "forked");
  process.rss_peak_bytes = maybe<uint64_t>(json, "rss_peak_bytes");
  process.exact = number<bool>(json, "exact");
  process.events_lost = maybe<bool>(json, "events_lost").value_or(false);
  process.complete = number<bool>(json, "log_complete");
  return process;
}

WholeRun::NotRecorded not_recorded_of(const Json& json) {
  WholeRun::NotRecorded process;
  process.pid = number<uint32_t>(json, "pid");
  process.program = text(json, "program");
  process.why = text(json, "why");
  process.used_gpu = number<bool>(json, "used_gpu");
  process.went_on = number<bool>(json, "went_on");
  process.rss_bytes = maybe<uint64_t>(json, "rss_bytes");
  process.held = list(json, "devices", [](const Json& held) {
    return WholeRun::NotRecorded::Held{text(held, "name"), text(held, "uuid"),
                                       count(held, "nvml_bytes")};
  });
  return process;
}

std::optional<WholeRun> whole_run_of(const Json& json) {
  const Json& value = field(json, "whole_run");
  if (value.is_null()) return std::nullopt;
  WholeRun run;
  run.log = text(value, "log");
  run.is_recorded = number<bool>(value, "recorded_by_run");
  run.watched = number<bool>(value, "descendants_watched");
  run.lost_logs = count(value, "lost_logs");
  run.processes = list(value, "processes", process_of);
  run.lead = count(value, "lead");
  if (run.lead >= run.processes.size()) refuse("the lead is no process");
  run.devices = list(value, "devices", sum_of);
  for (const WholeRun::Process& process : run.processes) {
    for (const WholeRun::OfDevice& held : process.devices)
      if (held.device >= run.devices.size()) refuse("a process's GPU is none of the run's");
  }
  run.all_devices = maybe_sum(value, "all_devices");
  run.host = maybe_sum(value, "host");
  run.not_recorded = list(value, "not_recorded", not_recorded_of);
  run.still_running = list(value, "still_running", [](const Json& process) {
    return WholeRun::StillRunning{number<uint32_t>(process, "pid"), text(process, "program"),
                                  text(process, "log"), maybe_text(process, "why").value_or(""),
                                  maybe<uint64_t>(process, "rss_bytes")};
  });
  run.metrics = metrics_of(value);
  return run;
}

Summary summary_of(const Json& json, const std::string& name, const Sanitizer& sanitizer) {
  const std::string schema = text(json, "schema");
  if (schema != kSchema) {
    throw LogError(
        schema.starts_with(kSchemaPrefix)
            ? fmt::format("{} is a newer summary: {}; this gpupeak reads {}", name, schema, kSchema)
            : fmt::format("{} is no summary: make one with gpupeak report --json", name),
        0);
  }
  if (sanitizer.is_confidential() && !number<bool>(json, "confidential")) {
    throw UsageError(fmt::format(
        "{} names names: make it anew with gpupeak report --json --confidential", name));
  }
  Summary summary;
  summary.log_path = name;
  summary.confidential = number<bool>(json, "confidential");
  summary.tool_version = text(field(json, "tool"), "version");
  summary.log_format = number<uint32_t>(field(json, "tool"), "log_format");
  summary.grouped_by = text(json, "grouped_by");
  if (summary.grouped_by.empty()) summary.grouped_by = group_by_name(GroupBy::kSite);
  summary.run = run_of(field(json, "run"));
  summary.devices = list(json, "devices", device_of);
  summary.metrics = metrics_of(json);
  summary.peaks = list(json, "peaks", peak_of);
  summary.phases = list(json, "phases", phase_of);
  summary.oom_count = count(json, "oom_count");
  summary.live_at_exit = list(json, "live_at_exit", holder_of);
  summary.quality = quality_of(field(json, "quality"));
  summary.whole_run = whole_run_of(json);
  return summary;
}

}  // namespace

bool begins_like_json(const std::string& path) {
  const Descriptor file = open_regular(path);
  char front[256];
  const ssize_t got = file ? pread(file.get(), front, sizeof front, 0) : 0;
  const std::string_view text(front, got > 0 ? static_cast<size_t>(got) : 0);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

Summary summary_from_json(std::string_view content, const std::string& name,
                          const Sanitizer& sanitizer) {
  try {
    return summary_of(Json::parse(content), sanitizer.text(name), sanitizer);
  } catch (const Json::parse_error& error) {
    throw LogError(fmt::format("{} is damaged JSON, at byte {}", name, error.byte), error.byte);
  } catch (const Json::exception&) {
    throw LogError(name + " is JSON, but no summary: a field has another type", 0);
  } catch (const std::invalid_argument& error) {
    throw LogError(fmt::format("{} is JSON, but no summary: {}", name, error.what()), 0);
  }
}

Summary load_summary(const std::string& path, const Options& options, const Progress& progress) {
  if (!begins_like_json(path)) return kept_or_analyzed(path, options, progress);
  constexpr uint64_t kMostJsonBytes = 256 << 20;
  const std::optional<std::string> content = read_regular(path, kMostJsonBytes);
  if (!content) throw LogError(escape(path) + " cannot be read: " + strerror(errno), 0);
  Summary summary = summary_from_json(*content, path, options.reading.sanitizer);
  if (options.top > 0 && summary.grouped_by != group_by_name(options.by)) {
    throw UsageError(fmt::format(
        "the rows of {} are by {}, not by {}: make it anew with gpupeak "
        "report --json --by {}",
        escape(path), summary.grouped_by, group_by_name(options.by), group_by_name(options.by)));
  }
  return summary;
}

}  // namespace gpupeak::collector
