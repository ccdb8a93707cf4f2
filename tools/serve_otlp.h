// The same metrics in OpenTelemetry's protocol (OTLP over HTTP, in protobuf): what `serve --otlp`
// sends. gpupeak_serve alone uses it. Field numbers are those of opentelemetry-proto 1.x.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gpupeak::tools {

/// An ExportMetricsServiceRequest: a resource for each log, with its process, host, rank, pod and
/// job as attributes, and one for what is of the folder. `time_ns`: since 1970, when the values
/// were read.
std::string otlp_request(const std::vector<prometheus::MetricFamily>& families, uint64_t time_ns);

}  // namespace gpupeak::tools
