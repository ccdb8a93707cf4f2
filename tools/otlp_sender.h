// Sends requests of OTLP by HTTP. gpupeak_serve alone uses it, where libcurl was there when it was
// built.
#pragma once

#include <string>

namespace gpupeak::tools {

/// Where to: `given`, or, where that is "env", what OpenTelemetry's variables say:
/// OTEL_EXPORTER_OTLP_METRICS_ENDPOINT as it is, or OTEL_EXPORTER_OTLP_ENDPOINT and /v1/metrics.
/// Empty: nowhere.
std::string otlp_endpoint(const std::string& given);

class OtlpSender {
 public:
  explicit OtlpSender(std::string url);
  OtlpSender(const OtlpSender&) = delete;
  OtlpSender& operator=(const OtlpSender&) = delete;
  ~OtlpSender();
  /// Whether it was taken. Says what is wrong, once until it is another thing or right again.
  bool send(const std::string& request);

 private:
  const std::string url_;
  void* curl_;
  void* headers_ = nullptr;
  std::string wrong_;  ///< what was said last
};

}  // namespace gpupeak::tools
