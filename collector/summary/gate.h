// Limits that a run must keep: how they are parsed and checked, and why one is broken. `gpupeak
// check` calls it, writers.h prints the results.
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

/// "METRIC[@WHERE]=LIMIT": WHERE is "device:N" or "phase:NAME". Without WHERE it limits the
/// process's figure.
struct Gate {
  std::string text;   ///< as it was given, or as a hash
  std::string shown;  ///< metric and place, or their hashes
  std::string metric;
  std::string where;      ///< empty: the process
  bool increase = false;  ///< limits the increase over the baseline; else the figure itself
  uint64_t limit = 0;
  std::optional<double> percent;  ///< of the baseline; replaces `limit`
};

/// Both throw UsageError. Results show the names of the gate as `sanitizer` does.
Gate parse_max(const std::string& text, const Sanitizer& sanitizer = {});
Gate parse_max_increase(const std::string& text, const Sanitizer& sanitizer = {});
/// "8GiB", "500MB", "1.5 GB", "4096". Throws UsageError.
uint64_t parse_size(const std::string& text);

struct GateResult {
  Gate gate;
  bool passed = false;
  std::optional<uint64_t> value, baseline, allowed;
  std::optional<uint64_t> error_bytes;  ///< of the value; none: it is exact
  std::string message;                  ///< one sentence: what was found and what was allowed
  std::vector<std::string> reasons;  ///< of a broken gate: the sites that grew, or that hold most
};

/// What a limit on device memory means for a run that used no device. Most often such a log is of a
/// wrapper, not of the program that was meant, and a gate that passes then watches nothing.
enum class NoDevice { kFails, kIsZero };

/// `baseline` is needed if any gate limits an increase. A figure that was not measured breaks its
/// gate. `style` is for sizes in the reasons. Throws UsageError for a metric, device or phase that
/// the summary does not have.
std::vector<GateResult> check_gates(const std::vector<Gate>& gates, const Summary& summary,
                                    const Summary* baseline, NoDevice no_device = NoDevice::kFails,
                                    const TextStyle& style = {});

}  // namespace gpupeak::collector
