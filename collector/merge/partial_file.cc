#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/merge/merge.h"
#include "collector/summary/summary_json.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "gpupeak.partial/";
constexpr int kVersion = 1;
/// A curve's 128 KiB of steps are less than 1 MiB as text.
constexpr size_t kLongestLine = 16 << 20;
constexpr size_t kLongestFront = 4096;

/// The lines of a zstd file.
class Lines {
 public:
  Lines(const std::string& path, size_t longest)
      : name_(escape(path)), file_(path), in_{file_.data(), file_.bytes(), 0}, longest_(longest) {}

  /// The next line; none after the last one. Throws LogError.
  std::optional<std::string> next() {
    for (;;) {
      const size_t end = text_.find('\n', begin_);
      if (end != std::string::npos) {
        std::string line = text_.substr(begin_, end - begin_);
        begin_ = end + 1;
        ++number_;
        return line;
      }
      text_.erase(0, begin_);
      begin_ = 0;
      if (text_.size() > longest_) fail("has a line that is too long");
      if (!unpack()) break;
    }
    if (!text_.empty()) fail("ends within a line");
    return std::nullopt;
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw LogError(fmt::format("{} {}", name_, what), in_.pos);
  }
  [[noreturn]] void fail_in_line(std::string_view what) const {
    fail(fmt::format("is damaged: line {}: {}", number_, what));
  }

 private:
  bool unpack() {
    if (is_done_) return false;
    char buffer[1 << 16];
    ZSTD_outBuffer out{buffer, sizeof buffer, 0};
    const size_t left = ZSTD_decompressStream(context_.get(), &out, &in_);
    if (ZSTD_isError(left) != 0) fail(fmt::format("is damaged: {}", ZSTD_getErrorName(left)));
    text_.append(buffer, out.pos);
    is_done_ = left == 0;
    if (is_done_ && in_.pos != in_.size) fail("goes on behind its end");
    if (!is_done_ && in_.pos == in_.size && out.pos == 0)
      fail("is cut off: the end of it is missing");
    return true;
  }

  const std::string name_;
  const MappedFile file_;
  ZSTD_inBuffer in_;
  const size_t longest_;
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_{ZSTD_createDCtx(),
                                                                      &ZSTD_freeDCtx};
  std::string text_;
  size_t begin_ = 0, number_ = 0;
  bool is_done_ = false;
};

/// Reads the first line; returns how many logs the file has. Throws LogError.
uint64_t read_front(Lines& lines) {
  const std::optional<std::string> line = lines.next();
  const Json front = line ? Json::parse(*line, nullptr, false) : Json();
  const auto text = [&](const char* key) {
    return front.is_object() && front.contains(key) && front[key].is_string()
               ? front[key].get<std::string>()
               : std::string();
  };
  const std::string schema = text("schema");
  if (!schema.starts_with(kSchema)) lines.fail("is no partial result of gpupeak merge");
  if (schema != fmt::format("{}{}", kSchema, kVersion)) {
    lines.fail(
        fmt::format("is a {}, made by gpupeak {}, which this one does not know: merge it with "
                    "a gpupeak as new as that",
                    escape(schema), escape(text("version"))));
  }
  if (!front.contains("logs") || !front["logs"].is_number_unsigned())
    lines.fail_in_line("does not say how many logs there are");
  return front["logs"].get<uint64_t>();
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The keys of a record and its parts, once for the writer and the reader. An optional without a
// value has no key.

void record_fields(auto& io, Any<HeldPart> auto& part) {
  io("name, bytes", part.name, part.bytes);
}

void record_fields(auto& io, Any<Warning> auto& warning) {
  io("code, message", warning.code, warning.message);
}

void record_fields(auto& io, Any<Quality> auto& quality) {
  io("exact, only_heap_inexact, log_complete, log_end, heap_sample_bytes", quality.exact,
     quality.only_heap_inexact, quality.log_complete, quality.log_end, quality.heap_sample_bytes);
  io("events, device_events, host_events, dropped_events", quality.events, quality.device_events,
     quality.host_events, quality.dropped_events);
  io("truncated_stacks, unmatched_frees, unknown_heap_frees, repairs, hooks_missing, warnings",
     quality.truncated_stacks, quality.unmatched_frees, quality.unknown_heap_frees, quality.repairs,
     quality.hooks_missing, quality.warnings);
}

void record_fields(auto& io, Any<DeviceSummary> auto& device) {
  io("ordinal, uuid, name, total_bytes", device.ordinal, device.uuid, device.name,
     device.total_bytes);
}

void record_fields(auto& io, Any<OwnPeak> auto& peak) {
  io("side, bytes, time_ns, phase, tags, sites, other_bytes", peak.side, peak.bytes, peak.time_ns,
     peak.phase, peak.tags, peak.sites, peak.other_bytes);
}

void record_fields(auto& io, Any<Refusal> auto& refusal) {
  io("api, requested_bytes, time_ns, site, why, count, device, phase", refusal.api,
     refusal.requested_bytes, refusal.time_ns, refusal.site, refusal.why, refusal.count,
     refusal.device, refusal.phase);
}

void record_fields(auto& io, Any<ProcessRecord> auto& record) {
  auto& run = record.run;
  io.id("id", record.id);
  io("log, confidential, command, host, pid, ppid, start_time, duration_ns, exit", record.log_path,
     record.confidential, run.command, run.host, run.pid, run.ppid, run.start_time, run.duration_ns,
     run.end);
  io("boot, process_start_time, start_realtime_ns, start_monotonic_ns, last_ns, end_ns",
     record.boot, record.process_start_time, record.start_realtime_ns, record.start_monotonic_ns,
     record.last_ns, record.end_ns);
  io("host_measured, rank, quality, devices, peaks, refusal, resident, ended_with, curves",
     record.host_measured, run.rank, record.quality, record.devices, record.peaks, record.refusal,
     record.resident, record.ended_with, record.curves);
}

class RecordWriter {
 public:
  template <typename T>
  static Json json_of(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<T, std::string>) {
      return value;
    } else {
      RecordWriter fields;
      record_fields(fields, value);
      return std::move(fields.json_);
    }
  }

  void operator()(std::string_view names, const auto&... values) {
    FieldNames name(names);
    (put(name.next(), values), ...);
  }
  void id(std::string_view name, uint64_t id) { put(name, fmt::format("{:016x}", id)); }

 private:
  void put(std::string_view name, const auto& value) { json_[std::string(name)] = json_of(value); }
  template <typename T>
  void put(std::string_view name, const std::optional<T>& value) {
    if (value) put(name, *value);
  }

  static Json json_of(WarningCode code) { return code_text(code); }
  static Json json_of(LogEnd end) { return static_cast<unsigned>(end); }
  static Json json_of(const RunEnd& end) {
    if (end.kind == ExitKind::kUnknown) return {{"kind", "unknown"}};
    return {{"kind", end.kind == ExitKind::kExit ? "exit" : "signal"}, {"code", end.code}};
  }
  /// A curve's steps as pairs of numbers: nanoseconds since the step before, then bytes.
  static Json json_of(const HeldCurve& curve) {
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
  template <typename T>
  static Json json_of(const std::vector<T>& values) {
    Json json = Json::array();
    for (const T& value : values) json.push_back(json_of(value));
    return json;
  }
  template <typename T>
  static Json json_of(const std::map<std::string, T>& values) {
    Json json = Json::object();
    for (const auto& [name, value] : values) json[name] = json_of(value);
    return json;
  }

  Json json_;
};

/// Reads an object. `name` is its name in messages. Every value is checked, since anybody may have
/// written the file.
class RecordReader {
 public:
  RecordReader(const Json& json, std::string name) : json_(json), name_(std::move(name)) {
    if (!json.is_object()) fail("is no object");
  }

  void operator()(std::string_view names, auto&... values) {
    FieldNames name(names);
    (read(std::string(name.next()), values), ...);
  }
  void id(const std::string& name, uint64_t& id) {
    std::string text;
    read(name, text);
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
      fail("has an id that is none");
    id = std::stoull(text, nullptr, 16);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw std::runtime_error(fmt::format("{} {}", name_, what));
  }
  void require(bool is_such, const std::string& key, const char* such) const {
    if (!is_such) fail(fmt::format("has a {} that is {}", key, such));
  }
  const Json& at(const std::string& key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(fmt::format("has no {}", key));
    return *found;
  }

  void read(const std::string& key, auto& value) { set(value, at(key), key); }
  template <typename T>
  void read(const std::string& key, std::optional<T>& value) {
    if (json_.contains(key)) read(key, value.emplace());
  }

  template <typename T>
  void set(T& value, const Json& json, const std::string& key) {
    if constexpr (std::is_arithmetic_v<T>) {
      bool fits = json.is_number_integer();
      if (json.is_number_unsigned()) {
        fits = json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max());
      } else if (fits) {
        fits = std::is_signed_v<T> && json.get<int64_t>() >= int64_t{std::numeric_limits<T>::min()};
      }
      require(fits, key, "no such number");
      value = json.get<T>();
    } else {
      RecordReader fields(json, key);
      record_fields(fields, value);
    }
  }
  void set(bool& value, const Json& json, const std::string& key) {
    require(json.is_boolean(), key, "neither true nor false");
    value = json.get<bool>();
  }
  void set(std::string& value, const Json& json, const std::string& key) {
    require(json.is_string(), key, "no text");
    value = escape(json.get_ref<const std::string&>());
  }
  void set(WarningCode& value, const Json& json, const std::string& key) {
    std::string text;
    set(text, json, key);
    value = parse_warning_code(text);
  }
  void set(LogEnd& value, const Json& json, const std::string& key) {
    uint32_t end = 0;
    set(end, json, key);
    if (end > static_cast<uint32_t>(LogEnd::kUnknown)) fail("has an end that is none");
    value = static_cast<LogEnd>(end);
  }
  void set(RunEnd& value, const Json& json, const std::string& key) {
    std::string kind;
    RecordReader end(json, key);
    end("kind", kind);
    if (kind == "unknown") return;
    if (kind != "exit" && kind != "signal") end.fail("has a kind that is not known");
    value.kind = kind == "exit" ? ExitKind::kExit : ExitKind::kSignal;
    end("code", value.code);
  }
  void set(HeldCurve& value, const Json& json, const std::string& key) {
    const RecordReader part(json, key);
    const Json& steps = part.at("steps");
    part.require(steps.is_array(), "steps", "no list");
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
    uint64_t peak_bytes = 0, error_bytes = 0;
    RecordReader(json, key)("peak_bytes, error_bytes", peak_bytes, error_bytes);
    value = {std::move(list), peak_bytes, error_bytes};
  }
  template <typename T>
  void set(std::vector<T>& values, const Json& json, const std::string& key) {
    require(json.is_array(), key, "no list");
    for (const Json& value : json) set(values.emplace_back(), value, key);
  }
  template <typename T>
  void set(std::map<std::string, T>& values, const Json& json, const std::string& key) {
    const RecordReader object(json, key);
    for (const auto& [name, value] : json.items()) set(values[escape(name)], value, name);
  }

  const Json& json_;
  const std::string name_;
};

}  // namespace

bool is_partial(const std::string& path) {
  try {
    const std::optional<std::string> line = Lines(path, kLongestFront).next();
    return line && line->find(kSchema) != std::string::npos;
  } catch (const LogError&) {
    return false;
  }
}

void write_partial(std::vector<ProcessRecord> records, std::string_view version,
                   std::ostream& out) {
  std::ranges::sort(records, {}, &ProcessRecord::id);
  ZstdPacker packer(out, ZSTD_CLEVEL_DEFAULT, 0);
  const Json front{{"schema", fmt::format("{}{}", kSchema, kVersion)},
                   {"version", version},
                   {"logs", records.size()}};
  packer.add(bytes_of(front.dump() + "\n"), false);
  for (const ProcessRecord& record : records)
    packer.add(bytes_of(record_text(record) + "\n"), false);
  packer.add({}, true);
}

std::vector<ProcessRecord> read_partial(const std::string& path) {
  Lines lines(path, kLongestLine);
  const uint64_t logs = read_front(lines);
  std::vector<ProcessRecord> records;
  while (const std::optional<std::string> line = lines.next()) {
    try {
      records.push_back(record_of(*line));
    } catch (const std::runtime_error& error) {
      lines.fail_in_line(error.what());
    }
  }
  if (records.size() != logs)
    lines.fail(fmt::format("is damaged: it has {} logs of {}", records.size(), logs));
  return records;
}

std::string record_text(const ProcessRecord& record) {
  return RecordWriter::json_of(record).dump(-1, ' ', false, Json::error_handler_t::replace);
}

ProcessRecord record_of(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw std::runtime_error("is no JSON");
  ProcessRecord record;
  RecordReader reader(json, "the log");
  record_fields(reader, record);
  return record;
}

}  // namespace gpupeak::collector
