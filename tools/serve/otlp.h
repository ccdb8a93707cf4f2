// The metrics of serve_families.h in OpenTelemetry's protocol (OTLP over HTTP, in protobuf), which
// `serve --otlp` sends. Only gpupeak_serve uses it. Field numbers are those of opentelemetry-proto
// 1.x.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gpupeak::tools {

/// An ExportMetricsServiceRequest: a resource for each log, with its process, host, rank, pod and
/// job as attributes, and one resource for the folder. `time_ns`: when the values were read, in
/// nanoseconds since 1970.
std::string otlp_request(const std::vector<prometheus::MetricFamily>& families, uint64_t time_ns);

// Sends OTLP requests by HTTP. Only gpupeak_serve uses it, and only if it was built with libcurl.

/// The URL to send to: `given`; if that is "env", OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or else
/// OTEL_EXPORTER_OTLP_ENDPOINT followed by /v1/metrics. Empty: nothing is to be sent.
std::string otlp_endpoint(const std::string& given);

class OtlpSender {
 public:
  explicit OtlpSender(std::string url);
  OtlpSender(const OtlpSender&) = delete;
  OtlpSender& operator=(const OtlpSender&) = delete;
  ~OtlpSender();
  /// Returns whether the receiver took the request. If not, says why on standard error. The same
  /// fault is not said twice in a row.
  bool send(const std::string& request);

 private:
  const std::string url_;
  void* curl_;
  void* headers_ = nullptr;
  std::string wrong_;  ///< the fault that was said last
};

}  // namespace gpupeak::tools
