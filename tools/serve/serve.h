// The parts of gpupeak_serve, the program that `gpupeak serve` becomes.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/log/log_folder.h"
#include "tools/shared/nvml.h"

namespace gpupeak::tools {

using collector::FolderLog;
using collector::FolderView;
using Labels = std::vector<prometheus::ClientMetric::Label>;

// In which pod and container the programs of logs run. It is found out while they run, from /proc
// and from the variables and files that the downward API gave them. A name that is not known, or
// may be another program's, is left out.

/// Labels by name: namespace, pod, container, node, pod_uid, container_id.
using PodLabels = std::map<std::string, std::string>;

/// pod_uid and container_id, from the content of /proc/PID/cgroup (version 1 or 2), as Kubernetes,
/// docker, containerd, CRI-O and podman name them. Of nested containers the innermost counts.
PodLabels pod_of_cgroup(std::string_view cgroup);

class Pods {
 public:
  /// `procfs`: /proc, or where a container has the machine's /proc.
  explicit Pods(std::string procfs);

  /// To be called after each look at the folder. What was found out about a program stays known
  /// after its end.
  void look(const FolderView& view);
  PodLabels labels_of(const FolderLog& log) const;

 private:
  using Processes = std::map<std::pair<uint64_t, uint64_t>, std::string>;
  Processes processes() const;
  std::string process_of(const gpupeak_file_header& header, const Processes& known) const;

  const std::string procfs_;
  const std::string host_;               ///< this machine's or pod's
  PodLabels own_;                        ///< of the process that asks
  std::map<uint64_t, PodLabels> found_;  ///< by the log's cookie
};

/// The metrics of logs for Prometheus: names and labels by its conventions, values from the
/// counters pages. docs/fleet.md lists them. A value that was not measured has no sample; it is
/// never 0.
std::vector<prometheus::MetricFamily> log_families(std::span<const FolderLog> logs,
                                                   const Pods& pods);
/// Those of the folder itself, and of the processes on this machine's cards, recorded or not.
std::vector<prometheus::MetricFamily> folder_families(const FolderView& view,
                                                      const std::vector<NvmlHeld>& on_cards);

// The metrics in OpenTelemetry's protocol (OTLP over HTTP, in protobuf), which `serve --otlp`
// sends: only if it was built with libcurl. Field numbers are those of opentelemetry-proto 1.x.

/// An ExportMetricsServiceRequest: a resource for each log, with its process, host, rank, pod and
/// job as attributes, and one resource for the folder. `time_ns`: when the values were read, in
/// nanoseconds since 1970.
std::string otlp_request(const FolderView& view, const Pods& pods,
                         const std::vector<NvmlHeld>& on_cards, uint64_t time_ns);

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
