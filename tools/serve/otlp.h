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

}  // namespace gpupeak::tools
