#include "collector/write/write_metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/text/error.h"
#include "collector/text/nearest.h"
#include "collector/text/sanitize.h"
#include "collector/write/json_values.h"

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
      for (const auto& [name, value] : chosen(run)) {
        out_ << name << ' ' << (value ? fmt::format("{}", *value) : "null") << '\n';
      }
    }
  }

  /// One line a run.
  void jsonl() {
    for (const Summary& run : runs_) {
      Json json;
      json["schema"] = "gpupeak.metrics/1";
      json["benchmark"] = benchmark(run);
      json["start_time"] = run.run.start_time;
      json["duration_ns"] = run.run.duration_ns;
      json["exact"] = run.quality.exact;
      json["labels"] = Json::object();
      for (const auto& [name, value] : run.run.labels) json["labels"][name] = value;
      for (const auto& [name, value] : choice_.labels) json["labels"][name] = value;
      json["metrics"] = Json::object();
      for (const auto& [name, value] : chosen(run)) json["metrics"][name] = nullable(value);
      out_ << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    }
  }

  /// Bencher Metric Format: benchmark → measure → value.
  void bencher() {
    Json json = Json::object();
    for (const Summary& run : runs_) {
      Json& measures = json[benchmark(run)];
      if (measures.is_null()) measures = Json::object();
      for (const auto& [name, value] : chosen(run)) {
        if (value) measures[name] = {{"value", *value}};
      }
    }
    put(json);
  }

  /// github-action-benchmark's customSmallerIsBetter.
  void github() {
    Json json = Json::array();
    for (const Summary& run : runs_) {
      for (const auto& [name, value] : chosen(run)) {
        if (!value) continue;
        json.push_back({{"name", benchmark(run) + " " + name},
                        {"unit", unit(name)},
                        {"value", *value},
                        {"extra", extra(run)}});
      }
    }
    put(json);
  }

  /// Google Benchmark's JSON: a benchmark a run, the metrics as its counters.
  void google() {
    Json json;
    json["context"] = {
        {"date", runs_.front().run.start_time},
        {"host_name", runs_.front().run.host},
        {"executable", runs_.front().run.command.empty() ? "" : runs_.front().run.command.front()},
        {"caches", Json::array()},
        {"library_build_type", "release"}};
    for (const auto& [name, value] : choice_.labels) json["context"][name] = value;
    json["benchmarks"] = Json::array();
    for (const Summary& run : runs_) {
      Json entry{{"name", benchmark(run)},
                 {"run_name", benchmark(run)},
                 {"run_type", "iteration"},
                 {"repetitions", 1},
                 {"repetition_index", 0},
                 {"threads", 1},
                 {"iterations", 1},
                 {"real_time", run.run.duration_ns},
                 {"cpu_time", run.run.duration_ns},  // its readers insist on one
                 {"time_unit", "ns"}};
      for (const auto& [name, value] : chosen(run)) {
        if (value) entry[name] = *value;
      }
      json["benchmarks"].push_back(std::move(entry));
    }
    put(json);
  }

 private:
  void check_names(const Summary& run) const {
    for (const std::string& name : choice_.names) {
      if (run.metrics.contains(name)) continue;
      std::vector<std::string> known;
      for (const auto& [metric, value] : run.metrics) known.push_back(metric);
      throw UsageError(
          fmt::format("there is no metric '{}'{}", escape(name), did_you_mean(name, known)));
    }
  }

  Metrics chosen(const Summary& run) const {
    if (choice_.names.empty()) return run.metrics;
    Metrics metrics;
    for (const std::string& name : choice_.names) metrics[name] = metric(run.metrics, name);
    return metrics;
  }

  std::string name_and_rank(const Summary& run) const {
    const std::string name = choice_.benchmark.empty() ? program_of(run) : choice_.benchmark;
    return run.run.rank ? fmt::format("{}/rank:{}", name, *run.run.rank) : name;
  }

  /// Runs of one program are told apart by their ranks, else by their numbers.
  std::string benchmark(const Summary& run) const {
    const std::string name = name_and_rank(run);
    const auto same = [&](const Summary& other) { return name_and_rank(other) == name; };
    if (std::count_if(runs_.begin(), runs_.end(), same) == 1) return name;
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

  void put(const Json& json) {
    out_ << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
  }

  const std::vector<Summary>& runs_;
  const MetricsChoice& choice_;
  std::ostream& out_;
};

}  // namespace

std::string program_of(const Summary& summary) {
  if (summary.run.command.empty()) return summary.log_path;
  const std::string& program = summary.run.command.front();
  return program.substr(program.rfind('/') + 1);
}

void write_metrics(const std::vector<Summary>& runs, MetricsFormat format,
                   const MetricsChoice& choice, std::ostream& out) {
  MetricsWriter writer(runs, choice, out);
  switch (format) {
    case MetricsFormat::kText:
      return writer.text();
    case MetricsFormat::kJsonl:
      return writer.jsonl();
    case MetricsFormat::kBencher:
      return writer.bencher();
    case MetricsFormat::kGithubBenchmark:
      return writer.github();
    case MetricsFormat::kGoogleBenchmark:
      return writer.google();
  }
}

}  // namespace gpupeak::collector
