// Runs of one program with different values of its parameters: what each needed of a GPU, the curve
// of that, and the largest value that a capacity is enough for. `gpupeak sweep` makes the runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collector/summary/curve.h"
#include "collector/summary/fit.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// One of -P: its name and its values as they are typed.
struct SweepParameter {
  std::string name;
  std::vector<std::string> values;
  double step = 0;  ///< between values that are asked about; 0: not all values are numbers
};
/// "batch=1,2,4,8", "batch=8:64:8" (both ends), "batch=1:4". Throws UsageError.
SweepParameter parse_parameter(const std::string& text);
/// The number that a value is; none: it is none.
std::optional<double> number_of(const std::string& value);
/// As it is typed.
std::string number_text(double number);

/// A value for each parameter, in their order.
using SweepValues = std::vector<std::string>;
/// All combinations; the first parameter varies slowest. Throws UsageError for more than 10,000.
std::vector<SweepValues> combinations(const std::vector<SweepParameter>& parameters);
/// "batch=4, length=128".
std::string values_text(const std::vector<SweepParameter>& parameters, const SweepValues& values);
/// The command with {name} replaced. Throws UsageError if a parameter is in no word.
std::vector<std::string> command_for(const std::vector<std::string>& command,
                                     const std::vector<SweepParameter>& parameters,
                                     const SweepValues& values);
/// Whether `values` are at least as large as `other` in each parameter, and equal where that is no
/// number: what did not fit there does not fit here.
bool is_no_smaller(const SweepValues& values, const SweepValues& other);

enum class SweepStatus {
  kDone,
  kOutOfMemory,
  kRefused,  ///< went on with less than it had asked for
  kFailed,
  kNotRun,  ///< no smaller than one that ran out of memory
};
/// As JSON has them: "done", "out_of_memory" …
std::string_view sweep_status_name(SweepStatus status);

struct SweepRun {
  static constexpr int32_t kHostMemory = -1;
  SweepValues values;
  SweepStatus status = SweepStatus::kNotRun;
  bool from_before = false;  ///< its log was there
  bool for_check = false;    ///< made by --verify
  std::optional<int> exit_code;
  std::string why;          ///< of what is left out
  std::string log, output;  ///< files; empty: none
  int32_t device = 0;       ///< of several the one that needs most; kHostMemory: it is about that
  std::string device_name;
  uint64_t card_bytes = 0;  ///< of the card, or what there is of the host's; 0: not known
  uint64_t peak_bytes = 0;  ///< tracked
  /// Bounds of what it needs (fit.h), without and with a margin for the capacity that is asked for.
  std::optional<uint64_t> least_bytes, most_bytes;
  std::vector<FitRange> unsure;  ///< FitBounds'; others fit
  std::vector<TagShare> tags;    ///< of the peak
  double seconds = 0;
};

/// The runs that differ in the first parameter alone.
struct SweepGroup {
  SweepValues others;        ///< values of the other parameters
  std::vector<size_t> runs;  ///< by the first parameter's value
};
std::vector<SweepGroup> groups_of(const std::vector<SweepRun>& runs);
/// The runs of the group. They point into `runs`.
std::vector<const SweepRun*> runs_of(const std::vector<SweepRun>& runs, const SweepGroup& group);

struct SweepCapacity {
  uint64_t least = 0, most = 0;  ///< as Card has them; one figure: equal
  std::string name;              ///< "T4", "24 GiB"
};

struct SweepPrediction {
  std::optional<double> largest;  ///< fits
  bool was_run = false;           ///< at `largest`: it is no prediction any more
  bool next_was_run = false;      ///< one step above: does not fit, or not surely
  /// Between `largest` and this a run would tell: the pools might do with less.
  std::optional<double> may_fit;
  bool beyond = false;  ///< more than was looked at
  std::string why;      ///< nothing is predicted, or not beyond what was run
};
/// On the safe side: `largest` goes by the upper end of the curve's error.
SweepPrediction predict(const std::vector<const SweepRun*>& runs, double step,
                        const SweepCapacity& capacity);

/// A curve for each tag and for the whole, by name; "" is the peak. Tags that are not in all runs
/// count as 0 there.
std::map<std::string, Curve> tag_curves(const std::vector<const SweepRun*>& runs);
/// The curve of what the runs need at most.
std::optional<Curve> need_curve(const std::vector<const SweepRun*>& runs);

}  // namespace gpupeak::collector
