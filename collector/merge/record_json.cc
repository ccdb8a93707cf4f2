#include "collector/merge/record_json.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
void put_optional(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

Json quality_of(const Quality& quality) {
  Json warnings = Json::array();
  for (const Warning& warning : quality.warnings)
    warnings.push_back({{"code", code_text(warning.code)}, {"message", warning.message}});
  return {{"exact", quality.exact},
          {"only_heap_inexact", quality.only_heap_inexact},
          {"log_complete", quality.log_complete},
          {"log_end", static_cast<unsigned>(quality.log_end)},
          {"heap_sample_bytes", quality.heap_sample_bytes},
          {"events", quality.events},
          {"device_events", quality.device_events},
          {"host_events", quality.host_events},
          {"dropped_events", quality.dropped_events},
          {"truncated_stacks", quality.truncated_stacks},
          {"unmatched_frees", quality.unmatched_frees},
          {"unknown_heap_frees", quality.unknown_heap_frees},
          {"repairs", quality.repairs},
          {"hooks_missing", quality.hooks_missing},
          {"warnings", std::move(warnings)}};
}

/// A curve's steps as pairs of numbers: nanoseconds since the step before, then bytes.
Json curve_json(const HeldCurve& curve) {
  Json steps = Json::array();
  uint64_t last_ns = 0;
  for (StepList::Reader step(curve.steps()); step.next();) {
    steps.push_back(step.ns() - last_ns);
    steps.push_back(step.bytes());
    last_ns = step.ns();
  }
  return {{"peak_bytes", curve.peak_bytes()},
          {"error_bytes", curve.error_bytes()},
          {"steps", std::move(steps)}};
}

/// A JSON value that is read, and its name for messages. Every value is checked, since anybody may
/// have written the file.
class Part {
 public:
  Part(const Json& json, std::string name) : json_(json), name_(std::move(name)) {
    if (!json.is_object()) fail("is no object");
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw std::runtime_error(fmt::format("{} {}", name_, what));
  }

  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(fmt::format("has no {}", key));
    return *found;
  }
  bool has(const char* key) const { return json_.contains(key); }

  template <class T>
  T number(const char* key) const {
    const Json& value = at(key);
    bool fits = false;
    if constexpr (std::is_unsigned_v<T>) {
      fits = value.is_number_unsigned() && value.get<uint64_t>() <= std::numeric_limits<T>::max();
    } else {
      const bool too_large =
          value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
      fits = value.is_number_integer() && !too_large &&
             value.get<int64_t>() >= std::numeric_limits<T>::min() &&
             value.get<int64_t>() <= std::numeric_limits<T>::max();
    }
    if (!fits) fail(fmt::format("has a {} that is no such number", key));
    return value.get<T>();
  }
  bool flag(const char* key) const {
    if (!at(key).is_boolean()) fail(fmt::format("has a {} that is neither true nor false", key));
    return at(key).get<bool>();
  }
  std::string text(const char* key) const { return text_in(at(key), key); }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> texts;
    for (const Json& value : list(key)) texts.push_back(text_in(value, key));
    return texts;
  }
  const Json& list(const char* key) const {
    if (!at(key).is_array()) fail(fmt::format("has a {} that is no list", key));
    return at(key);
  }
  Part object(const char* key) const { return Part(at(key), key); }
  template <class Read>
  void each(const char* key, Read read) const {
    for (const Json& value : list(key)) read(Part(value, key));
  }

 private:
  std::string text_in(const Json& value, const char* key) const {
    if (!value.is_string()) fail(fmt::format("has a {} that is no text", key));
    return escape(value.get_ref<const std::string&>());
  }

  const Json& json_;
  const std::string name_;
};

std::vector<HeldPart> parts_of(const Part& peak, const char* key) {
  std::vector<HeldPart> parts;
  peak.each(key, [&](const Part& part) {
    parts.push_back({part.text("name"), part.number<uint64_t>("bytes")});
  });
  return parts;
}

Quality read_quality(const Part& part) {
  Quality quality;
  quality.exact = part.flag("exact");
  quality.only_heap_inexact = part.flag("only_heap_inexact");
  quality.log_complete = part.flag("log_complete");
  // A record of an older gpupeak has neither of these two.
  quality.log_end = quality.log_complete ? LogEnd::kInOrder : LogEnd::kUnknown;
  if (part.has("log_end")) {
    const auto end = part.number<uint32_t>("log_end");
    if (end > static_cast<uint32_t>(LogEnd::kUnknown)) part.fail("has an end that is none");
    quality.log_end = static_cast<LogEnd>(end);
  }
  if (part.has("heap_sample_bytes"))
    quality.heap_sample_bytes = part.number<uint64_t>("heap_sample_bytes");
  for (const auto& [key, field] :
       {std::pair("events", &Quality::events), std::pair("device_events", &Quality::device_events),
        std::pair("host_events", &Quality::host_events),
        std::pair("dropped_events", &Quality::dropped_events),
        std::pair("truncated_stacks", &Quality::truncated_stacks),
        std::pair("unmatched_frees", &Quality::unmatched_frees),
        std::pair("unknown_heap_frees", &Quality::unknown_heap_frees),
        std::pair("repairs", &Quality::repairs)}) {
    quality.*field = part.number<uint64_t>(key);
  }
  quality.hooks_missing = part.texts("hooks_missing");
  part.each("warnings", [&](const Part& warning) {
    quality.warnings.push_back(
        {parse_warning_code(warning.text("code")), warning.text("message"), ""});
  });
  return quality;
}

HeldCurve read_curve(const Part& part) {
  const Json& steps = part.list("steps");
  StepList list;
  uint64_t ns = 0;
  for (size_t i = 0; i < steps.size(); i += 2) {
    if (i + 1 == steps.size() || !steps[i].is_number_unsigned() ||
        !steps[i + 1].is_number_unsigned())
      part.fail("has steps that are no pairs of times and bytes");
    const auto step = steps[i].get<uint64_t>();
    if (step > UINT64_MAX - ns) part.fail("has steps beyond all times");
    ns += step;
    list.add(ns, steps[i + 1].get<uint64_t>());
    if (list.coded_bytes() > 2 * HeldCurve::kRoomBytes) part.fail("has too many steps");
  }
  return {std::move(list), part.number<uint64_t>("peak_bytes"),
          part.number<uint64_t>("error_bytes")};
}

OwnPeak read_peak(const Part& part) {
  OwnPeak peak;
  peak.side = part.text("side");
  peak.bytes = part.number<uint64_t>("bytes");
  peak.time_ns = part.number<int64_t>("time_ns");
  if (part.has("phase")) peak.phase = part.text("phase");
  peak.tags = parts_of(part, "tags");
  peak.sites = parts_of(part, "sites");
  peak.other_bytes = part.number<uint64_t>("other_bytes");
  return peak;
}

Refusal read_refusal(const Part& part) {
  Refusal refusal;
  refusal.api = part.text("api");
  if (part.has("device")) refusal.device = part.number<int32_t>("device");
  refusal.requested_bytes = part.number<uint64_t>("requested_bytes");
  refusal.time_ns = part.number<int64_t>("time_ns");
  if (part.has("phase")) refusal.phase = part.text("phase");
  refusal.site = part.text("site");
  refusal.why = part.text("why");
  refusal.count = part.number<uint64_t>("count");
  return refusal;
}

RunEnd read_end(const Part& part) {
  const std::string kind = part.text("kind");
  if (kind == "unknown") return {};
  if (kind != "exit" && kind != "signal") part.fail("has a kind that is not known");
  return {kind == "exit" ? ExitKind::kExit : ExitKind::kSignal, part.number<int32_t>("code")};
}

Json end_of(const RunEnd& end) {
  if (end.kind == ExitKind::kUnknown) return {{"kind", "unknown"}};
  return {{"kind", end.kind == ExitKind::kExit ? "exit" : "signal"}, {"code", end.code}};
}

}  // namespace

Json parts_json(const std::vector<HeldPart>& parts) {
  Json json = Json::array();
  for (const HeldPart& part : parts) json.push_back({{"name", part.name}, {"bytes", part.bytes}});
  return json;
}

std::string record_text(const ProcessRecord& record) {
  Json json{{"id", fmt::format("{:016x}", record.id)},
            {"log", record.log_path},
            {"confidential", record.confidential},
            {"command", record.run.command},
            {"host", record.run.host},
            {"pid", record.run.pid},
            {"ppid", record.run.ppid},
            {"start_time", record.run.start_time},
            {"duration_ns", record.run.duration_ns},
            {"exit", end_of(record.run.end)},
            {"boot", record.boot},
            {"process_start_time", record.process_start_time},
            {"start_realtime_ns", record.start_realtime_ns},
            {"start_monotonic_ns", record.start_monotonic_ns},
            {"last_ns", record.last_ns},
            {"end_ns", record.end_ns},
            {"host_measured", record.host_measured}};
  put_optional(json, "rank", record.run.rank);
  json["quality"] = quality_of(record.quality);
  json["devices"] = Json::array();
  for (const DeviceSummary& device : record.devices) {
    json["devices"].push_back({{"ordinal", device.ordinal},
                               {"uuid", device.uuid},
                               {"name", device.name},
                               {"total_bytes", device.total_bytes}});
  }
  json["peaks"] = Json::array();
  for (const OwnPeak& peak : record.peaks) {
    Json& out = json["peaks"].emplace_back(
        Json{{"side", peak.side}, {"bytes", peak.bytes}, {"time_ns", peak.time_ns}});
    put_optional(out, "phase", peak.phase);
    out["tags"] = parts_json(peak.tags);
    out["sites"] = parts_json(peak.sites);
    out["other_bytes"] = peak.other_bytes;
  }
  if (record.refusal) {
    const Refusal& refusal = *record.refusal;
    Json& out = json["refusal"];
    out = {{"api", refusal.api},         {"requested_bytes", refusal.requested_bytes},
           {"time_ns", refusal.time_ns}, {"site", refusal.site},
           {"why", refusal.why},         {"count", refusal.count}};
    put_optional(out, "device", refusal.device);
    put_optional(out, "phase", refusal.phase);
  }
  json["curves"] = Json::object();
  for (const auto& [scope, curve] : record.curves) json["curves"][scope] = curve_json(curve);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ProcessRecord record_of(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw std::runtime_error("is no JSON");
  const Part part(json, "the log");
  ProcessRecord record;
  const std::string id = part.text("id");
  if (id.size() != 16 || id.find_first_not_of("0123456789abcdef") != std::string::npos)
    part.fail("has an id that is none");
  record.id = std::stoull(id, nullptr, 16);
  record.log_path = part.text("log");
  record.confidential = part.flag("confidential");
  record.run.command = part.texts("command");
  record.run.host = part.text("host");
  record.run.pid = part.number<uint32_t>("pid");
  record.run.ppid = part.number<uint32_t>("ppid");
  if (part.has("rank")) record.run.rank = part.number<int32_t>("rank");
  record.run.start_time = part.text("start_time");
  record.run.duration_ns = part.number<int64_t>("duration_ns");
  record.run.end = read_end(part.object("exit"));
  record.quality = read_quality(part.object("quality"));
  record.boot = part.text("boot");
  record.process_start_time = part.number<uint64_t>("process_start_time");
  record.start_realtime_ns = part.number<uint64_t>("start_realtime_ns");
  record.start_monotonic_ns = part.number<uint64_t>("start_monotonic_ns");
  record.last_ns = part.number<uint64_t>("last_ns");
  record.end_ns = part.number<uint64_t>("end_ns");
  record.host_measured = part.flag("host_measured");
  part.each("devices", [&](const Part& device) {
    DeviceSummary& own = record.devices.emplace_back();
    own.ordinal = device.number<int32_t>("ordinal");
    own.uuid = device.text("uuid");
    own.name = device.text("name");
    own.total_bytes = device.number<uint64_t>("total_bytes");
  });
  part.each("peaks", [&](const Part& peak) { record.peaks.push_back(read_peak(peak)); });
  if (part.has("refusal")) record.refusal = read_refusal(part.object("refusal"));
  const Part curves = part.object("curves");
  for (const auto& [scope, curve] : part.at("curves").items())
    record.curves[escape(scope)] = read_curve(curves.object(scope.c_str()));
  return record;
}

}  // namespace gpupeak::collector
