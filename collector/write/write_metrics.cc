#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/text/sanitize.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

class MetricsWriter {
 public:
  MetricsWriter(const std::vector<Summary>& runs, const MetricsChoice& choice, std::ostream& out)
      : runs_(runs), choice_(choice), out_(out) {
    for (const Summary& run : runs) check_names(run);
  }

  void text() {
    const char* separator = "";
    for (const Summary& run : runs_) {
      out_ << separator;
      separator = "\n";
      if (runs_.size() > 1) out_ << "# " << run.log_path << '\n';
      for (const auto& [name, value] : chosen(run))
        out_ << name << ' ' << (value ? fmt::format("{}", *value) : "null") << '\n';
    }
  }

  /// One line for each run.
  void jsonl() {
    for (const Summary& run : runs_) {
      Json json = object("schema, benchmark, start_time, duration_ns, exact, labels",
                         "gpupeak.metrics/1", benchmark(run), run.run.start_time,
                         run.run.duration_ns, run.quality.exact, run.run.labels);
      for (const auto& [name, value] : choice_.labels) json["labels"][name] = value;
      json["metrics"] = Json::object();
      for (const auto& [name, value] : chosen(run)) {
        json["metrics"][name] = JsonFields::json_of(value);
        if (const auto error = error_of(run, name)) json["error_bytes"][name] = *error;
      }
      line(json);
    }
  }

  /// Bencher Metric Format: benchmark → measure → value.
  void bencher() {
    Json json = Json::object();
    for (const Summary& run : runs_) {
      Json& measures = json[benchmark(run)];
      if (measures.is_null()) measures = Json::object();
      for (const auto& [name, value] : measured(run)) measures[name] = object("value", value);
    }
    write_line(json, out_);
  }

  /// The form customSmallerIsBetter of github-action-benchmark.
  void github() {
    Json json = Json::array();
    for (const Summary& run : runs_) {
      for (const auto& [name, value] : measured(run))
        json.push_back(object("name, unit, value, extra", benchmark(run) + " " + name, unit(name),
                              value, extra(run)));
    }
    write_line(json, out_);
  }

  /// Google Benchmark's JSON: each run is a benchmark, and the metrics are its counters.
  void google() {
    Json json;
    json["context"] =
        object("date, host_name, executable, caches, library_build_type",
               runs_.front().run.start_time, runs_.front().run.host,
               runs_.front().run.command.empty() ? "" : runs_.front().run.command.front(),
               Json::array(), "release");
    for (const auto& [name, value] : choice_.labels) json["context"][name] = value;
    json["benchmarks"] = Json::array();
    for (const Summary& run : runs_) {
      // Readers of the format require cpu_time.
      Json entry = object(
          "name, run_name, run_type, repetitions, repetition_index, threads, iterations, "
          "real_time, cpu_time, time_unit",
          benchmark(run), benchmark(run), "iteration", 1, 0, 1, 1, run.run.duration_ns,
          run.run.duration_ns, "ns");
      for (const auto& [name, value] : measured(run)) entry[name] = value;
      json["benchmarks"].push_back(std::move(entry));
    }
    write_line(json, out_);
  }

  /// The body of MLflow's runs/log-batch, one line for each run. The label run_id becomes its
  /// field.
  void mlflow() {
    for (const Summary& run : runs_) {
      std::map<std::string, std::string> labels = labels_of(run);
      Json json;
      if (const auto id = labels.find("run_id"); id != labels.end()) {
        json["run_id"] = id->second;
        labels.erase(id);
      }
      const int64_t end_ms = end_ns(run) / 1'000'000;
      json["metrics"] = Json::array();
      for (const auto& [name, value] : measured(run))
        json["metrics"].push_back(
            object("key, value, timestamp, step", "gpupeak/" + name, value, end_ms, 0));
      json["tags"] = {{{"key", "gpupeak.benchmark"}, {"value", benchmark(run)}},
                      object("key, value", "gpupeak.exact", run.quality.exact ? "true" : "false")};
      for (const auto& [name, value] : labels)
        json["tags"].push_back(object("key, value", name, value));
      line(json);
    }
  }

  /// A flat object on each line, for a run's summary or its log().
  void wandb() {
    for (const Summary& run : runs_) {
      Json json;
      json["gpupeak/benchmark"] = benchmark(run);
      json["gpupeak/exact"] = run.quality.exact;
      for (const auto& [name, value] : labels_of(run)) json["gpupeak/label/" + name] = value;
      for (const auto& [name, value] : measured(run)) json["gpupeak/" + name] = value;
      line(json);
    }
  }

  /// An ExportMetricsServiceRequest of OpenTelemetry, in protobuf's JSON, where 64-bit numbers are
  /// texts.
  void otlp() {
    Json resources = Json::array();
    for (const Summary& run : runs_) {
      const auto attribute = [](const std::string& key, const std::string& value) {
        return object("key, value", key, object("stringValue", value));
      };
      Json attributes = Json::array(
          {attribute("service.name", benchmark(run)), attribute("host.name", run.run.host)});
      attributes.push_back(
          object("key, value", "process.pid", object("intValue", fmt::format("{}", run.run.pid))));
      attributes.push_back(
          object("key, value", "gpupeak.exact", object("boolValue", run.quality.exact)));
      for (const auto& [name, value] : labels_of(run)) attributes.push_back(attribute(name, value));
      Json metrics = Json::array();
      for (const auto& [name, value] : measured(run)) {
        Json point =
            object("startTimeUnixNano, timeUnixNano, asInt", fmt::format("{}", start_ns(run)),
                   fmt::format("{}", end_ns(run)), fmt::format("{}", value));
        metrics.push_back(object("name, unit, gauge", "gpupeak." + name,
                                 unit(name) == "bytes" ? "By" : "1",
                                 object("dataPoints", Json::array({std::move(point)}))));
      }
      Json scope = object("scope, metrics", object("name, version", "gpupeak", run.tool_version),
                          std::move(metrics));
      resources.push_back(object("resource, scopeMetrics",
                                 object("attributes", std::move(attributes)),
                                 Json::array({std::move(scope)})));
    }
    line(object("resourceMetrics", std::move(resources)));
  }

  /// The samples of a family stand together for all runs, as the format demands. They have no time
  /// stamps, since a Pushgateway refuses these.
  void openmetrics() {
    std::map<std::string, std::vector<std::pair<const Summary*, uint64_t>>> families;
    for (const Summary& run : runs_) {
      for (const auto& [name, value] : measured(run)) families[name].emplace_back(&run, value);
    }
    for (const auto& [metric, samples] : families) {
      const std::string name = openmetrics_name(metric);
      out_ << fmt::format("# TYPE {} gauge\n", name);
      if (name.ends_with("_bytes")) out_ << fmt::format("# UNIT {} bytes\n", name);
      out_ << fmt::format("# HELP {} {} of a run, by gpupeak.\n", name, metric);
      for (const auto& [run, value] : samples) {
        out_ << name << "{benchmark=" << quoted(benchmark(*run));
        for (const auto& [label, text] : labels_of(*run)) {
          if (label != "benchmark") out_ << ',' << label_name(label) << '=' << quoted(text);
        }
        out_ << "} " << value << '\n';
      }
    }
    out_ << "# EOF\n";
  }

 private:
  std::map<std::string, std::string> labels_of(const Summary& run) const {
    std::map<std::string, std::string> labels(run.run.labels.begin(), run.run.labels.end());
    for (const auto& [name, value] : choice_.labels) labels[name] = value;
    return labels;
  }

  /// Nanoseconds since 1970, rounded down to seconds; 0: the summary has no time. A damaged log may
  /// name a year that these do not reach.
  static int64_t start_ns(const Summary& run) {
    constexpr int64_t kSecond = 1'000'000'000;
    tm time{};
    if (strptime(run.run.start_time.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return 0;
    return std::clamp<int64_t>(timegm(&time), 0, INT64_MAX / kSecond) * kSecond;
  }
  static int64_t end_ns(const Summary& run) {
    int64_t end;
    const bool is_beyond = __builtin_add_overflow(start_ns(run), run.run.duration_ns, &end);
    return is_beyond ? INT64_MAX : end;
  }

  /// Names that differ from those of `serve`, without the ending of another metric type.
  static std::string openmetrics_name(std::string metric) {
    if (metric.ends_with("_count")) metric.replace(metric.size() - 6, 6, "s");
    return "gpupeak_run_" + label_name(metric);
  }
  static std::string label_name(std::string text) {
    for (char& c : text) {
      const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!fits) c = '_';
    }
    if (text.empty() || (text[0] >= '0' && text[0] <= '9')) text.insert(0, 1, '_');
    return text;
  }
  static std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
      if (c == '\n') {
        result += "\\n";
        continue;
      }
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
    return result + '"';
  }

  void line(const Json& json) {
    out_ << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  }

  void check_names(const Summary& run) const {
    for (const std::string& name : choice_.names) {
      if (run.metrics.contains(name)) continue;
      throw UsageError("there is no metric '{}'{}", escape(name),
                       did_you_mean(name, keys_of(run.metrics)));
    }
  }

  Metrics chosen(const Summary& run) const {
    if (choice_.names.empty()) return run.metrics;
    Metrics metrics;
    for (const std::string& name : choice_.names) metrics[name] = metric(run.metrics, name);
    return metrics;
  }
  std::map<std::string, uint64_t> measured(const Summary& run) const {
    std::map<std::string, uint64_t> values;
    for (const auto& [name, value] : chosen(run)) {
      if (value) values[name] = *value;
    }
    return values;
  }

  std::string name_and_rank(const Summary& run) const {
    const std::string name = choice_.benchmark.empty() ? program_of(run) : choice_.benchmark;
    return run.run.rank ? fmt::format("{}/rank:{}", name, *run.run.rank) : name;
  }

  /// A name for the run. Runs of one program are told apart by ranks, else by numbers.
  std::string benchmark(const Summary& run) const {
    const std::string name = name_and_rank(run);
    const auto same = [&](const Summary& other) { return name_and_rank(other) == name; };
    if (std::ranges::count_if(runs_, same) == 1) return name;
    return fmt::format("{}/{}", name, &run - runs_.data());
  }

  static std::string unit(const std::string& name) {
    return name.ends_with("_count") ? "count" : "bytes";
  }

  std::string extra(const Summary& run) const {
    std::string text = run.log_path;
    for (const auto& [name, value] : choice_.labels) text += fmt::format("\n{}={}", name, value);
    return text;
  }

  const std::vector<Summary>& runs_;
  const MetricsChoice& choice_;
  std::ostream& out_;
};

constexpr std::pair<std::string_view, void (MetricsWriter::*)()> kFormats[] = {
    {"text", &MetricsWriter::text},
    {"jsonl", &MetricsWriter::jsonl},
    {"bencher", &MetricsWriter::bencher},
    {"github-benchmark", &MetricsWriter::github},
    {"google-benchmark", &MetricsWriter::google},
    {"mlflow", &MetricsWriter::mlflow},
    {"wandb", &MetricsWriter::wandb},
    {"otlp-json", &MetricsWriter::otlp},
    {"openmetrics", &MetricsWriter::openmetrics}};

}  // namespace

std::string program_of(const Summary& summary) {
  if (summary.run.command.empty()) return summary.log_path;
  return std::string(file_name(summary.run.command.front()));
}

std::vector<std::string> metrics_formats() {
  return list_of(kFormats, [](const auto& format) { return std::string(format.first); });
}

void write_metrics(const std::vector<Summary>& runs, std::string_view format,
                   const MetricsChoice& choice, std::ostream& out) {
  MetricsWriter writer(runs, choice, out);
  for (const auto& [name, write] : kFormats)
    if (name == format) return (writer.*write)();
}

}  // namespace gpupeak::collector
