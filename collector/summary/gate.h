// Limits that a run must keep: parsed, checked, and why one is broken. `gpupeak check` drives it,
// write_gates.h prints the results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/summary/diff.h"
#include "collector/summary/summary.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// "METRIC[@WHERE]=LIMIT": WHERE is "device:N" or "phase:NAME"; without it the process's figure.
struct Gate {
  std::string text;   ///< as given, or confidential
  std::string shown;  ///< metric and place, likewise
  std::string metric;
  std::string where;      ///< empty: the process
  bool increase = false;  ///< over the baseline; else the figure itself
  uint64_t limit = 0;
  std::optional<double> percent;  ///< instead of `limit`; of the baseline
};

/// Throw UsageError. Results show what the gate names as `sanitizer` does.
Gate parse_max(const std::string& text, const Sanitizer& sanitizer = {});
Gate parse_max_increase(const std::string& text, const Sanitizer& sanitizer = {});
/// "8GiB", "500MB", "1.5 GB", "4096". Throws UsageError.
uint64_t parse_size(const std::string& text);

struct GateResult {
  Gate gate;
  bool passed = false;
  std::optional<uint64_t> value, baseline, allowed;
  std::optional<uint64_t> error_bytes;  ///< of the value; none: it is exact
  std::string message;               ///< one sentence: what was found and what was allowed
  std::vector<std::string> reasons;  ///< of a broken gate: the sites that grew, or that hold most
};

/// What a limit on device memory means for a run that used no device. Most often such a log is of
/// another program than was meant (a wrapper), and a gate that passes on it watches nothing.
enum class NoDevice { kFails, kIsZero };

/// `baseline` is needed if any gate limits an increase. A figure that was not measured breaks its
/// gate. Sizes in the reasons look as `style` says. Throws UsageError for a metric, device or phase
/// that the summary does not know.
std::vector<GateResult> check_gates(const std::vector<Gate>& gates, const Summary& summary,
                                    const Summary* baseline, NoDevice no_device = NoDevice::kFails,
                                    const TextStyle& style = {});

}  // namespace gpupeak::collector
