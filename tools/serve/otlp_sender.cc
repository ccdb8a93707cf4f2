#include "tools/serve/otlp_sender.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace gpupeak::tools {
namespace {

constexpr long kDefaultTimeoutMs = 10'000;  // as in OpenTelemetry's own exporters

std::string variable(const char* of_metrics, const char* of_all) {
  for (const char* name : {of_metrics, of_all}) {
    const char* value = getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

size_t ignore(const char* /*bytes*/, size_t size, size_t count, void* /*to*/) {
  return size * count;
}

}  // namespace

std::string otlp_endpoint(const std::string& given) {
  if (given != "env") return given;
  if (const std::string own = variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", ""); !own.empty())
    return own;
  std::string url = variable("OTEL_EXPORTER_OTLP_ENDPOINT", "");
  while (url.ends_with('/')) url.pop_back();
  return url.empty() ? "" : url + "/v1/metrics";
}

OtlpSender::OtlpSender(std::string url) : url_(std::move(url)) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  curl_ = curl_easy_init();
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/x-protobuf");
  const std::string more =
      variable("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
  for (size_t at = 0; at < more.size();) {  // "name=value,name=value"
    const size_t end = std::min(more.find(',', at), more.size());
    std::string header = more.substr(at, end - at);
    const size_t equals = header.find('=');
    if (equals != std::string::npos)
      headers = curl_slist_append(headers, header.replace(equals, 1, ": ").c_str());
    at = end + 1;
  }
  headers_ = headers;
}

OtlpSender::~OtlpSender() {
  curl_slist_free_all(static_cast<curl_slist*>(headers_));
  curl_easy_cleanup(curl_);
  curl_global_cleanup();
}

bool OtlpSender::send(const std::string& request) {
  const std::string timeout =
      variable("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
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
