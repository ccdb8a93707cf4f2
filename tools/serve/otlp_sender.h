// Sends OTLP requests by HTTP. Only gpupeak_serve uses it, and only if it was built with libcurl.
#pragma once

#include <string>

namespace gpupeak::tools {

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
