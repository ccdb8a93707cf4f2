// Reads the profiles that ONNX Runtime writes itself: which node ran when, and in which thread. The
// preload notes in the log where a session's profile lies and when its clock began (facts
// ort.profile). Replay makes phases of the nodes. docs/phases.md says how the clocks are joined.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collector/log/log_reader.h"

namespace gpupeak::collector {

/// One run of one node.
struct NodeSpan {
  uint64_t begin_ticks = 0, end_ticks = 0;
  uint32_t tid = 0;
  uint32_t name = 0;  ///< index into NodeProfiles::names
  uint64_t session = 0;
};

struct NodeProfiles {
  std::vector<NodeSpan> spans;        ///< by begin; a span within another one comes behind it
  std::vector<std::string> names;     ///< "conv1 (Conv)"
  std::vector<std::string> problems;  ///< sentences: what is missing, and why
};

/// Reads the profiles of all sessions of the log. What cannot be read becomes a problem, not an
/// error.
NodeProfiles read_ort_profiles(const LogReader& log);

}  // namespace gpupeak::collector
