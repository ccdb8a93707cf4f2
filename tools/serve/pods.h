// In which pod and container the programs of logs run. It is found out while they run, from /proc
// and from the variables and files that the downward API gave them. A name that is not known, or
// may be another program's, is left out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "tools/shared/log_folder.h"

namespace gpupeak::tools {

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

}  // namespace gpupeak::tools
