// Runs of one program with different values of its parameters: what each run needed of a GPU, a
// curve through these needs, and the largest value that fits a capacity. `gpupeak sweep` makes the
// runs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/summary/fit.h"
#include "collector/summary/summary.h"
#include "collector/text/lists.h"

namespace gpupeak::collector {

// A line through measured points, or a parabola where that is clearly better, and how far off it
// may be. For predictions that must be on the safe side. `gpupeak sweep` calls it.
struct CurvePoint {
  double x = 0, y = 0;
};

class Curve {
 public:
  /// The curve through these points; none: they have fewer than two different x.
  static std::optional<Curve> through(const std::vector<CurvePoint>& points);

  double at(double x) const { return chosen_.at(x); }
  /// The next point at `x` will not be above, or below, this. Infinite for a line through two
  /// points, since nobody knows how far off it is.
  double upper(double x) const;
  double lower(double x) const;

  bool is_parabola() const { return chosen_.terms == 3; }
  /// y = constant + slope * x + square * x².
  double constant() const { return chosen_.in_x[0]; }
  double slope() const { return chosen_.in_x[1]; }
  double square() const { return chosen_.in_x[2]; }
  /// The largest distance of a point from the curve.
  double error() const { return chosen_.error; }
  size_t points() const { return points_; }

 private:
  /// Fitted by least squares, in (x - middle) / spread, so that large x lose no digits.
  struct Model {
    size_t terms = 0;
    std::array<double, 3> of{};
    std::array<double, 3> in_x{};
    std::array<std::array<double, 3>, 3> inverse{};  ///< of the normal equations
    double middle = 0, spread = 1;
    double squares = 0;  ///< sum of the squared distances
    double error = 0;
    size_t free = 0;  ///< points beyond those that are needed to draw it

    double at(double x) const;
    double band(double x) const;
  };
  static std::optional<Model> fit(const std::vector<CurvePoint>& points, size_t terms);

  Model chosen_;
  std::optional<Model> other_;  ///< another model that cannot be ruled out, for upper() and lower()
  size_t points_ = 0;
};

/// A parameter (-P): its name, and its values as they are typed.
struct SweepParameter {
  std::string name;
  std::vector<std::string> values;
  double step = 0;  ///< between the values of a prediction; 0: not all values are numbers
};
/// "batch=1,2,4,8", "batch=8:64:8" (both ends), "batch=1:4". Throws UsageError.
SweepParameter parse_parameter(const std::string& text);
/// The number as one types it.
std::string number_text(double number);

/// A value for each parameter, in their order.
using SweepValues = std::vector<std::string>;
/// All combinations; the first parameter varies slowest. Throws UsageError for more than 10,000.
std::vector<SweepValues> combinations(const std::vector<SweepParameter>& parameters);
/// "batch=4, length=128".
std::string values_text(const std::vector<SweepParameter>& parameters, const SweepValues& values);
/// The command with {name} replaced. Throws UsageError for a parameter that no word has.
std::vector<std::string> command_for(const std::vector<std::string>& command,
                                     const std::vector<SweepParameter>& parameters,
                                     const SweepValues& values);
/// Whether `values` are at least as large as `other` in each parameter, and equal where it is no
/// number. Then what did not fit with `other` does not fit with `values`.
bool is_no_smaller(const SweepValues& values, const SweepValues& other);

enum class SweepStatus {
  kDone,
  kOutOfMemory,
  kRefused,  ///< it was refused memory and went on with less
  kFailed,
  kNotRun,  ///< its values are no smaller than those of a run that was out of memory
};
/// As JSON has them: "done", "out_of_memory" …
std::string_view sweep_status_name(SweepStatus status);

struct SweepRun {
  static constexpr int32_t kHostMemory = -1;
  SweepValues values;
  SweepStatus status = SweepStatus::kNotRun;
  bool from_before = false;  ///< its log was there before this sweep
  bool for_check = false;    ///< made by --verify
  std::optional<int> exit_code;
  std::string why;          ///< why it is left out, was not run or has no upper bound
  std::string log, output;  ///< files; empty: none
  int32_t device = 0;       ///< of several devices the one that needs most; or kHostMemory
  std::string device_name;
  uint64_t card_bytes = 0;  ///< of the card, or of the host; 0: not known
  uint64_t peak_bytes = 0;  ///< tracked
  /// Bounds of what it needs (fit.h), the upper one with the margin for the card that is asked for.
  std::optional<uint64_t> least_bytes, most_bytes;
  std::vector<FitRange> unsure;  ///< capacities as in FitBounds: others fit
  std::vector<TagShare> tags;    ///< of the peak
  double seconds = 0;

  uint64_t bytes_of(const std::string& tag) const {
    return sum_of(tags, [&](const auto& share) { return share.name == tag ? share.bytes : 0; });
  }
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
  uint64_t least = 0, most = 0;  ///< as in Card; equal if one figure was asked for
  std::string name;              ///< "T4", "24 GiB"
};

struct SweepPrediction {
  std::optional<double> largest;  ///< the largest value that fits
  bool was_run = false;           ///< there was a run with `largest`: it is no prediction
  bool next_was_run = false;  ///< there was a run one step above: it does not fit, or not surely
  /// Values from `largest` to this may fit, since the pools might do with less: a run would tell.
  std::optional<double> may_fit;
  bool beyond = false;  ///< larger values may fit as well: nothing is predicted beyond the runs
  std::string why;      ///< why nothing is predicted, or nothing beyond the runs
};
/// On the safe side: `largest` follows the upper end of the curve's error.
SweepPrediction predict(const std::vector<const SweepRun*>& runs, double step,
                        const SweepCapacity& capacity);

/// A curve for each tag, by name; "" is the curve of the whole peak. A tag counts as 0 in runs that
/// do not have it.
std::map<std::string, Curve> tag_curves(const std::vector<const SweepRun*>& runs);
/// The curve of the upper bounds of what the runs need.
std::optional<Curve> need_curve(const std::vector<const SweepRun*>& runs);

}  // namespace gpupeak::collector
