#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <protozero/pbf_writer.hpp>

#include "tools/serve/serve.h"

namespace gpupeak::tools {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using protozero::pbf_writer;
using Attributes = std::vector<std::pair<std::string, std::string>>;

namespace field {
enum : protozero::pbf_tag_type {
  // ExportMetricsServiceRequest
  kResourceMetrics = 1,
  // ResourceMetrics
  kResource = 1,
  kScopeMetrics = 2,
  // Resource
  kResourceAttributes = 1,
  // ScopeMetrics
  kScope = 1,
  kMetrics = 2,
  // InstrumentationScope
  kScopeName = 1,
  kScopeVersion = 2,
  // Metric
  kName = 1,
  kDescription = 2,
  kUnit = 3,
  kGauge = 5,
  kSum = 7,
  // Gauge, Sum
  kDataPoints = 1,
  kTemporality = 2,
  kIsMonotonic = 3,
  // NumberDataPoint
  kStartTime = 2,
  kTime = 3,
  kAsDouble = 4,
  kAsInt = 6,
  kPointAttributes = 7,
  // KeyValue, AnyValue
  kKey = 1,
  kValue = 2,
  kString = 1,
  kInt = 3,
};
}  // namespace field

constexpr int kCumulative = 2;
constexpr const char* kCapacity = "gpupeak_device_capacity_bytes";

/// The attribute for a label of log_info. Its name is that of the semantic conventions, if they
/// have one.
struct Convention {
  std::string_view label, attribute;
  bool is_number = false;
};
constexpr Convention kResource[] = {
    {"program", "process.executable.name"},
    {"pid", "process.pid", true},
    {"host", "host.name"},
    {"pod", "k8s.pod.name"},
    {"namespace", "k8s.namespace.name"},
    {"container", "k8s.container.name"},
    {"node", "k8s.node.name"},
    {"pod_uid", "k8s.pod.uid"},
    {"container_id", "container.id"},
    {"rank", "gpupeak.rank", true},
    {"log", "gpupeak.log"},
};

void add_attribute(pbf_writer& to, protozero::pbf_tag_type tag, std::string_view name,
                   const std::string& value, bool is_number = false) {
  pbf_writer pair(to, tag);
  pair.add_string(field::kKey, name.data(), name.size());
  pbf_writer any(pair, field::kValue);
  if (is_number)
    any.add_int64(field::kInt, std::atoll(value.c_str()));
  else
    any.add_string(field::kString, value);
}

/// gpupeak_device_kind_live_bytes is gpupeak.device.kind_live in By. The rule by which Prometheus
/// names OTLP's metrics turns these names back into ours.
struct Name {
  std::string text;
  const char* unit = "1";
};

Name name_of(const MetricFamily& family) {
  // The card's capacity is not about a program; the conventions have a name for it.
  if (family.name == kCapacity) return {"hw.gpu.memory.limit", "By"};
  std::string text = family.name;
  const char* unit = "1";
  const auto cut = [&text](std::string_view ending) {
    if (!text.ends_with(ending)) return false;
    text.resize(text.size() - ending.size());
    return true;
  };
  cut("_total");
  if (cut("_bytes")) unit = "By";
  if (cut("_seconds")) unit = "s";
  text.replace(text.find('_'), 1, ".");
  for (const std::string_view space : {"gpupeak.device", "gpupeak.host", "gpupeak.run"})
    if (text.starts_with(space) && text[space.size()] == '_') text[space.size()] = '.';
  return {text, unit};
}

/// nullptr: there is no such label.
const std::string* value_of(const Labels& labels, std::string_view name) {
  const auto found = std::ranges::find(labels, name, &ClientMetric::Label::name);
  return found != labels.end() ? &found->value : nullptr;
}

/// The first of these variables that is set and not empty.
std::string variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

/// Of "name=value,name=value".
Attributes pairs_of(const std::string& text) {
  Attributes pairs;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const size_t equals = text.find('=', at);
    if (equals < end)
      pairs.push_back({text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1)});
    at = end + 1;
  }
  return pairs;
}

/// Attributes that the operator has set in OpenTelemetry's own variable, and the job.
Attributes of_environment() {
  Attributes all = pairs_of(variable({"OTEL_RESOURCE_ATTRIBUTES"}));
  // The job of the launcher or the pod. It is this service's job, which runs beside the programs.
  constexpr std::pair<const char*, const char*> kJobs[] = {{"SLURM_JOB_ID", "gpupeak.job"},
                                                           {"JOB_NAME", "k8s.job.name"}};
  for (const auto& [from, attribute] : kJobs)
    if (const std::string value = variable({from}); !value.empty())
      all.push_back({attribute, value});
  return all;
}

/// The samples of one family; empty: there is no such family.
std::span<const ClientMetric> samples_of(const std::vector<MetricFamily>& families,
                                         std::string_view name) {
  const auto found = std::ranges::find(families, name, &MetricFamily::name);
  if (found == families.end()) return {};
  return found->metric;
}

/// The resource of one log, or of the folder, with its metrics.
class Resource {
 public:
  /// `log`: its name; "": the folder.
  Resource(std::string log, std::vector<MetricFamily> families, uint64_t time_ns)
      : log_(std::move(log)), families_(std::move(families)), time_ns_(time_ns) {
    for (const ClientMetric& start : samples_of(families_, "gpupeak_run_start_time_seconds"))
      start_ns_ = static_cast<uint64_t>(start.gauge.value * collector::kNsPerSecond);
    for (const ClientMetric& info : samples_of(families_, "gpupeak_log_info")) info_ = info.label;
  }

  void write(pbf_writer& request, const Attributes& environment) const {
    pbf_writer resource_metrics(request, field::kResourceMetrics);
    {
      pbf_writer resource(resource_metrics, field::kResource);
      add_resource(resource, environment);
    }
    pbf_writer scope_metrics(resource_metrics, field::kScopeMetrics);
    {
      pbf_writer scope(scope_metrics, field::kScope);
      scope.add_string(field::kScopeName, "gpupeak");
      scope.add_string(field::kScopeVersion, GPUPEAK_VERSION);
    }
    for (const MetricFamily& family : families_)
      if (!family.name.ends_with("_info")) add(scope_metrics, family);
  }

 private:
  /// The service's name: as the operator has set it, else the program, as in `metrics --format
  /// otlp-json`.
  std::string service(const Attributes& environment) const {
    if (const std::string name = variable({"OTEL_SERVICE_NAME"}); !name.empty()) return name;
    for (const auto& [name, value] : environment)
      if (name == "service.name") return value;
    const std::string* program = value_of(info_, "program");
    return program != nullptr ? *program : "gpupeak";
  }
  void add_resource(pbf_writer& resource, const Attributes& environment) const {
    const auto add = [&resource](std::string_view name, const std::string& value,
                                 bool number = false) {
      add_attribute(resource, field::kResourceAttributes, name, value, number);
    };
    add("service.name", service(environment));
    if (!log_.empty()) add("service.instance.id", log_);
    for (const auto& [name, value] : info_) {
      const auto* const found = std::ranges::find(kResource, name, &Convention::label);
      if (found != std::end(kResource))
        add(found->attribute, value, found->is_number);
      else
        add("gpupeak." + name, value);
    }
    for (const auto& [name, value] : environment)
      if (name != "service.name") add(name, value);
  }

  void add(pbf_writer& scope_metrics, const MetricFamily& family) const {
    const Name name = name_of(family);
    pbf_writer metric(scope_metrics, field::kMetrics);
    metric.add_string(field::kName, name.text);
    metric.add_string(field::kDescription, family.help);
    metric.add_string(field::kUnit, name.unit);
    const bool is_counter = family.type == MetricType::Counter;
    const bool is_sum = is_counter || family.name == kCapacity;
    pbf_writer data(metric, is_sum ? field::kSum : field::kGauge);
    for (const ClientMetric& sample : family.metric) {
      pbf_writer point(data, field::kDataPoints);
      if (is_sum && start_ns_ > 0) point.add_fixed64(field::kStartTime, start_ns_);
      point.add_fixed64(field::kTime, time_ns_);
      const double value = is_counter ? sample.counter.value : sample.gauge.value;
      if (std::string_view(name.unit) == "s")
        point.add_double(field::kAsDouble, value);
      else
        point.add_sfixed64(field::kAsInt, static_cast<int64_t>(value));
      add_labels(point, sample);
    }
    if (is_sum) {
      data.add_enum(field::kTemporality, kCumulative);
      data.add_bool(field::kIsMonotonic, is_counter);
    }
  }

  void add_labels(pbf_writer& point, const ClientMetric& sample) const {
    for (const auto& [name, value] : sample.label) {
      if (name == "log") continue;
      add_attribute(point, field::kPointAttributes, name, value);
      if (name != "device") continue;
      for (const ClientMetric& card : samples_of(families_, "gpupeak_device_info")) {
        if (*value_of(card.label, "device") != value) continue;
        constexpr std::pair<const char*, const char*> kCard[] = {{"UUID", "hw.id"},
                                                                 {"name", "hw.name"}};
        for (const auto& [from, attribute] : kCard)
          if (const std::string* of = value_of(card.label, from))
            add_attribute(point, field::kPointAttributes, attribute, *of);
      }
    }
  }

  const std::string log_;
  const std::vector<MetricFamily> families_;
  const uint64_t time_ns_;
  uint64_t start_ns_ = 0;
  Labels info_;  // of the process
};

constexpr long kDefaultTimeoutMs = 10'000;  // as in OpenTelemetry's own exporters

size_t ignore(const char* /*bytes*/, size_t size, size_t count, void* /*to*/) {
  return size * count;
}

}  // namespace

std::string otlp_request(const FolderView& view, const Pods& pods,
                         const std::vector<NvmlHeld>& on_cards, uint64_t time_ns) {
  std::string out;
  pbf_writer request(out);
  const Attributes environment = of_environment();
  Resource("", folder_families(view, on_cards), time_ns).write(request, environment);
  for (const FolderLog& log : view.logs)
    Resource(log.name, log_families({&log, 1}, pods), time_ns).write(request, environment);
  return out;
}

std::string otlp_endpoint(const std::string& given) {
  if (given != "env") return given;
  if (const std::string own = variable({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"}); !own.empty())
    return own;
  std::string url = variable({"OTEL_EXPORTER_OTLP_ENDPOINT"});
  while (url.ends_with('/')) url.pop_back();
  return url.empty() ? "" : url + "/v1/metrics";
}

OtlpSender::OtlpSender(std::string url) : url_(std::move(url)) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  curl_ = curl_easy_init();
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/x-protobuf");
  for (const auto& [name, value] :
       pairs_of(variable({"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"})))
    headers = curl_slist_append(headers, (name + ": " + value).c_str());
  headers_ = headers;
}

OtlpSender::~OtlpSender() {
  curl_slist_free_all(static_cast<curl_slist*>(headers_));
  curl_easy_cleanup(curl_);
  curl_global_cleanup();
}

bool OtlpSender::send(const std::string& request) {
  const std::string timeout =
      variable({"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"});
  const long timeout_ms = std::atol(timeout.c_str());
  curl_easy_setopt(curl_, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS, timeout_ms > 0 ? timeout_ms : kDefaultTimeoutMs);
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, static_cast<curl_slist*>(headers_));
  curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.size()));
  curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, request.data());
  curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, ignore);
  const CURLcode code = curl_easy_perform(curl_);
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  constexpr long kTaken = 200, kNoLonger = 300;
  std::string wrong;
  if (code != CURLE_OK)
    wrong = curl_easy_strerror(code);
  else if (status < kTaken || status >= kNoLonger)
    wrong = "it answers " + std::to_string(status);
  if (!wrong.empty() && wrong != wrong_)
    std::cerr << "gpupeak: " << url_ << " does not take the metrics: " << wrong
              << "; the next ones have what these had" << std::endl;
  wrong_ = wrong;
  return wrong.empty();
}

}  // namespace gpupeak::tools
