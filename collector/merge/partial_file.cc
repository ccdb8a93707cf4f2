#include <fmt/format.h>
#include <zstd.h>

#include <memory>
#include <span>
#include <stdexcept>

#include "collector/analyze/json_io.h"
#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/merge/merge.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kSchemaFamily = "gpupeak.partial/";
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
  if (!schema.starts_with(kSchemaFamily)) lines.fail("is no partial result of gpupeak merge");
  if (schema != fmt::format("{}{}", kSchemaFamily, kVersion)) {
    lines.fail(
        fmt::format("is a {}, made by gpupeak {}, which this one does not know: merge it with a "
                    "gpupeak as new as that",
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

void record_fields(auto&& io, auto& value) {
  each_field(io, value);
}

void record_fields(auto&& io, Any<Warning> auto& warning) {
  io("code, message", warning.code, warning.message);
}

void record_fields(auto&& io, Any<Quality> auto& quality) {
  io("exact, only_heap_inexact, log_complete, log_end, heap_sample_bytes", quality.exact,
     quality.only_heap_inexact, quality.log_complete, quality.log_end, quality.heap_sample_bytes);
  io("events, device_events, host_events, dropped_events", quality.events, quality.device_events,
     quality.host_events, quality.dropped_events);
  io("truncated_stacks, unmatched_frees, unknown_heap_frees, repairs, hooks_missing, warnings",
     quality.truncated_stacks, quality.unmatched_frees, quality.unknown_heap_frees, quality.repairs,
     quality.hooks_missing, quality.warnings);
}

void record_fields(auto&& io, Any<DeviceSummary> auto& device) {
  io("ordinal, uuid, name, total_bytes", device.ordinal, device.uuid, device.name,
     device.total_bytes);
}

void record_fields(auto&& io, Any<Refusal> auto& refusal) {
  io("api, requested_bytes, time_ns, site, why, count, device, phase", refusal.api,
     refusal.requested_bytes, refusal.time_ns, refusal.site, refusal.why, refusal.count,
     refusal.device, refusal.phase);
}

void record_fields(auto&& io, Any<ProcessRecord> auto& record) {
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

struct RecordWriter : JsonWriter<RecordWriter> {
  static constexpr bool kMayLack = true;

  static void fields(RecordWriter& io, const auto& value) { record_fields(io, value); }
  void id(std::string_view name, uint64_t id) { put(name, fmt::format("{:016x}", id)); }

  using JsonWriter::json_of;
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
};

struct RecordFields {
  static constexpr bool kMayLack = false;

  static void fields(const auto& io, auto& value) { record_fields(io, value); }
  static void set(const auto& from, LogEnd& value) {
    uint32_t end = 0;
    from.get(end);
    from.require(end <= static_cast<uint32_t>(LogEnd::kUnknown), "is no end");
    value = static_cast<LogEnd>(end);
  }
  static void set(const auto& from, HeldCurve& value) {
    std::vector<uint64_t> steps;
    uint64_t peak_bytes = 0, error_bytes = 0, ns = 0;
    from("steps, peak_bytes, error_bytes", steps, peak_bytes, error_bytes);
    from.require(steps.size() % 2 == 0, "has steps that are no pairs of times and bytes");
    StepList list;
    for (size_t i = 0; i < steps.size(); i += 2) {
      from.require(steps[i] <= UINT64_MAX - ns, "has steps beyond all times");
      list.add(ns += steps[i], steps[i + 1]);
      from.require(list.coded_bytes() <= 2 * HeldCurve::kRoomBytes, "has too many steps");
    }
    value = {std::move(list), peak_bytes, error_bytes};
  }
};

struct RecordReader : JsonReader<RecordFields> {
  using JsonReader::JsonReader;
  void id(std::string_view name, uint64_t& id) const {
    std::string text;
    (*this)(name, text);
    require(text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos,
            "has an id that is none");
    id = std::stoull(text, nullptr, 16);
  }
};

}  // namespace

bool is_partial(const std::string& path) {
  try {
    const std::optional<std::string> line = Lines(path, kLongestFront).next();
    return line && line->find(kSchemaFamily) != std::string::npos;
  } catch (const LogError&) {
    return false;
  }
}

void write_partial(std::vector<ProcessRecord> records, std::string_view version,
                   std::ostream& out) {
  std::ranges::sort(records, {}, &ProcessRecord::id);
  ZstdPacker packer(out, ZSTD_CLEVEL_DEFAULT, 0);
  const Json front{{"schema", fmt::format("{}{}", kSchemaFamily, kVersion)},
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
  record_fields(RecordReader(json, "the log"), record);
  return record;
}

}  // namespace gpupeak::collector
