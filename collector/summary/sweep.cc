#include "collector/summary/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMostRuns = 10'000;
/// A curve is followed for so many steps.
constexpr size_t kMostSteps = 100'000;
constexpr size_t kLeastPoints = 3;
/// A curve that is off by no more than this is off by rounding to pages alone.
constexpr double kRounding = 2 << 20;

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UsageError("-P {}: {}", escape(text), why);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// The least difference of neighboring values; 0: not all are numbers.
double step_of(const std::vector<std::string>& values) {
  std::set<double> numbers;
  for (const std::string& value : values) {
    const std::optional<double> number = number_of(value);
    if (!number) return 0;
    numbers.insert(*number);
  }
  double step = 0;
  for (auto it = numbers.begin(); std::next(it) != numbers.end(); ++it) {
    const double difference = *std::next(it) - *it;
    if (step == 0 || difference < step) step = difference;
  }
  return step == 0 ? 1 : step;
}

double first_number(const SweepRun& run) {
  return number_of(run.values.front()).value_or(0);
}

bool is_measured(const SweepRun& run) {
  return run.status == SweepStatus::kDone && run.most_bytes.has_value();
}

bool fits_into(const SweepRun& run, const SweepCapacity& capacity) {
  const FitBounds bounds{run.least_bytes, run.most_bytes, 0, run.unsure};
  return fit_into(bounds, capacity.least, capacity.most).fit == Fit::kFits;
}

/// How much more than the most that was seen beyond the lower bound is reckoned with. Of 114 random
/// trainings at 522 capacities no value was too large with 1, and eight with 0.8.
constexpr double kBeyondSeen = 1.25;

/// If PyTorch's pool was simulated in all runs: what they need beyond the lower bound, as a part of
/// that bound. It depends on which block lies where, so it scatters, but it hardly grows with the
/// value.
std::optional<double> excess_of(const std::vector<const SweepRun*>& runs) {
  double excess = 0;
  for (const SweepRun* run : runs) {
    if (!is_measured(*run)) continue;
    if (run->unsure.empty() || run->least_bytes.value_or(0) == 0) return std::nullopt;
    const double part =
        static_cast<double>(*run->most_bytes) / static_cast<double>(*run->least_bytes);
    excess = std::max(excess, part - 1);
  }
  return kBeyondSeen * excess;
}

/// Whether it grows by more than it scatters, and still does at the last value. Else its slope
/// comes from rounding to pages, and would lead to absurd values.
bool grows(const Curve& curve, double first, double last) {
  const double least = std::max(kRounding, 2 * curve.error());
  return curve.at(last) - curve.at(first) > least && curve.slope() + 2 * curve.square() * last > 0;
}

template <typename Bytes>
std::vector<CurvePoint> points_of(const std::vector<const SweepRun*>& runs, Bytes bytes) {
  std::vector<CurvePoint> points;
  for (const SweepRun* run : runs) {
    if (const std::optional<uint64_t> y = bytes(*run))
      points.push_back({first_number(*run), static_cast<double>(*y)});
  }
  return points;
}

}  // namespace

std::string number_text(double number) {
  return fmt::format("{:.12g}", number);
}

SweepParameter parse_parameter(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    refuse(text, "give NAME=VALUE,VALUE… or NAME=FIRST:LAST:STEP, for instance batch=1,2,4,8");
  SweepParameter parameter;
  parameter.name = text.substr(0, equals);
  if (parameter.name.find_first_of("{}") != std::string::npos) refuse(text, "a name without { }");
  const std::string values = text.substr(equals + 1);
  const std::vector<std::string> range = split(values, ':');
  if (range.size() == 2 || range.size() == 3) {
    const std::optional<double> first = number_of(range[0]), last = number_of(range[1]);
    const std::optional<double> step = range.size() == 3 ? number_of(range[2]) : 1;
    if (first && last && step) {
      if (*step <= 0 || *last < *first)
        refuse(text, "FIRST ≤ LAST, and a STEP above 0, are needed");
      const double count = std::floor((*last - *first) / *step + 1e-9) + 1;
      if (count > static_cast<double>(kMostRuns)) refuse(text, "more than 10,000 values");
      for (size_t i = 0; i < static_cast<size_t>(count); ++i)
        parameter.values.push_back(number_text(*first + static_cast<double>(i) * *step));
      parameter.step = *step;
      return parameter;
    }
  }
  parameter.values = split(values, ',');
  std::set<std::string> known;
  for (const std::string& value : parameter.values) {
    if (value.empty()) refuse(text, "a value is empty");
    if (!known.insert(value).second) refuse(text, fmt::format("{} twice", escape(value)));
  }
  parameter.step = step_of(parameter.values);
  return parameter;
}

std::vector<SweepValues> combinations(const std::vector<SweepParameter>& parameters) {
  std::vector<SweepValues> all(1);
  for (const SweepParameter& parameter : parameters) {
    if (all.size() * parameter.values.size() > kMostRuns)
      throw UsageError("-P: more than 10,000 combinations");
    std::vector<SweepValues> next;
    for (const SweepValues& before : all) {
      for (const std::string& value : parameter.values) {
        next.push_back(before);
        next.back().push_back(value);
      }
    }
    all = std::move(next);
  }
  return all;
}

std::string values_text(const std::vector<SweepParameter>& parameters, const SweepValues& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : ", ", parameters[i].name, values[i]);
  return text;
}

std::vector<std::string> command_for(const std::vector<std::string>& command,
                                     const std::vector<SweepParameter>& parameters,
                                     const SweepValues& values) {
  std::vector<std::string> words = command;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string place = "{" + parameters[i].name + "}";
    bool any = false;
    for (std::string& word : words) {
      for (size_t at = 0; (at = word.find(place, at)) != std::string::npos;) {
        word.replace(at, place.size(), values[i]);
        at += values[i].size();
        any = true;
      }
    }
    if (!any) {
      throw UsageError("{} is in no word of the command: each run would be the same",
                       escape(place));
    }
  }
  return words;
}

bool is_no_smaller(const SweepValues& values, const SweepValues& other) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::optional<double> a = number_of(values[i]), b = number_of(other[i]);
    if (a && b ? *a < *b : values[i] != other[i]) return false;
  }
  return true;
}

std::string_view sweep_status_name(SweepStatus status) {
  constexpr std::string_view kNames[] = {"done", "out_of_memory", "refused", "failed", "not_run"};
  return kNames[static_cast<size_t>(status)];
}

std::vector<SweepGroup> groups_of(const std::vector<SweepRun>& runs) {
  std::vector<SweepGroup> groups;
  for (size_t i = 0; i < runs.size(); ++i) {
    const SweepValues others(runs[i].values.begin() + 1, runs[i].values.end());
    auto group = std::ranges::find(groups, others, &SweepGroup::others);
    if (group == groups.end()) group = groups.insert(groups.end(), {others, {}});
    group->runs.push_back(i);
  }
  for (SweepGroup& group : groups) {
    std::ranges::stable_sort(group.runs, [&](size_t a, size_t b) {
      const auto x = number_of(runs[a].values.front()), y = number_of(runs[b].values.front());
      return x && y && *x < *y;
    });
  }
  return groups;
}

std::vector<const SweepRun*> runs_of(const std::vector<SweepRun>& runs, const SweepGroup& group) {
  return list_of(group.runs, [&](size_t i) { return &runs[i]; });
}

std::optional<Curve> need_curve(const std::vector<const SweepRun*>& runs) {
  return Curve::through(points_of(
      runs, [](const SweepRun& run) { return is_measured(run) ? run.most_bytes : std::nullopt; }));
}

std::map<std::string, Curve> tag_curves(const std::vector<const SweepRun*>& runs) {
  std::map<std::string, Curve> curves;
  std::set<std::string> names;
  std::vector<const SweepRun*> measured;
  for (const SweepRun* run : runs) {
    if (run->status != SweepStatus::kDone) continue;
    measured.push_back(run);
    for (const TagShare& tag : run->tags) names.insert(tag.name);
  }
  const auto add = [&](const std::string& name, auto bytes) {
    if (const auto curve = Curve::through(points_of(measured, bytes))) curves.emplace(name, *curve);
  };
  add("", [](const SweepRun& run) { return std::optional(run.peak_bytes); });
  for (const std::string& name : names)
    add(name, [&](const SweepRun& run) { return std::optional(run.bytes_of(name)); });
  return curves;
}

SweepPrediction predict(const std::vector<const SweepRun*>& runs, double step,
                        const SweepCapacity& capacity) {
  SweepPrediction prediction;
  if (step == 0) {
    prediction.why = "the values are no numbers";
    return prediction;
  }
  std::set<double> measured, fits, above;  // values of runs; `above`: they do not fit
  for (const SweepRun* run : runs) {
    const double x = first_number(*run);
    // A run out of memory on this card says nothing about a larger card.
    const bool here = run->card_bytes == 0 || capacity.most <= run->card_bytes;
    // A run that was refused memory and went on with less counts as too large as well.
    const bool ran_out =
        run->status == SweepStatus::kOutOfMemory || run->status == SweepStatus::kRefused;
    const bool too_much = is_measured(*run) ? !fits_into(*run, capacity) : ran_out && here;
    if (too_much) above.insert(x);
    if (!is_measured(*run)) continue;
    measured.insert(x);
    if (!too_much) fits.insert(x);
  }
  if (measured.empty()) {
    prediction.why = "no run was measured";
    return prediction;
  }
  // A run that fits above one that does not is not believed.
  const double end = above.empty() ? HUGE_VAL : *above.begin();
  if (const auto from = fits.lower_bound(end); from != fits.begin())
    prediction.largest = *std::prev(from);
  const std::optional<Curve> most = need_curve(runs);
  const std::optional<Curve> least = Curve::through(points_of(
      runs, [](const SweepRun& run) { return is_measured(run) ? run.least_bytes : std::nullopt; }));
  const std::optional<double> excess = excess_of(runs);
  const auto upper = [&](double x) {
    const double bound = most->upper(x);
    return excess && least ? std::min(bound, least->upper(x) * (1 + *excess)) : bound;
  };
  const bool can_predict = most && most->points() >= kLeastPoints;
  const auto room = static_cast<double>(capacity.least);
  if (!can_predict) {
    prediction.why = "with fewer than 3 runs nothing is predicted beyond them";
  } else if (prediction.largest) {
    const double from = *prediction.largest;
    size_t steps = 0;
    prediction.beyond = !grows(*most, *measured.begin(), *measured.rbegin());
    for (double x = from + step; x < end && !prediction.beyond;
         x = from + static_cast<double>(steps + 1) * step) {
      if (!(upper(x) <= room)) break;
      prediction.beyond = ++steps == kMostSteps;
      prediction.largest = x;
    }
    if (prediction.beyond) {
      prediction.largest = from;
      prediction.why = "it hardly grows with the value: nothing is predicted beyond the runs";
    }
  }
  if (!prediction.largest) {
    if (prediction.why.empty()) prediction.why = "the smallest value does not surely fit";
    return prediction;
  }
  prediction.was_run = fits.contains(*prediction.largest);
  prediction.next_was_run = std::ranges::any_of(
      above, [&](double x) { return std::abs(x - *prediction.largest - step) < step * 1e-6; });
  if (!least || least->points() < kLeastPoints || prediction.beyond) return prediction;
  const auto most_room = static_cast<double>(capacity.most);
  for (size_t steps = 1; steps < kMostSteps; ++steps) {
    const double x = *prediction.largest + static_cast<double>(steps) * step;
    const bool ran_out = std::ranges::any_of(runs, [&](const SweepRun* run) {
      const bool here = run->card_bytes == 0 || capacity.most <= run->card_bytes;
      return run->status == SweepStatus::kOutOfMemory && here && first_number(*run) <= x;
    });
    if (ran_out || !(least->lower(x) <= most_room)) break;
    prediction.may_fit = x;
  }
  return prediction;
}

namespace {

/// A parabola is better if it leaves less than this part of a line's squared distances.
constexpr double kClearlyBetter = 0.1;
/// A bend of more than this many times its own uncertainty cannot be ruled out.
constexpr double kBend = 2;

/// Student's t for 99.5 % on one side, by the number of points to spare. For one point it is that
/// of 99 %: 99.5 % would be too wide to say anything.
double student(size_t free) {
  constexpr double kTable[] = {31.82, 9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25, 3.17};
  return free <= std::size(kTable) ? kTable[free - 1] : 3.1;
}

using Matrix = std::array<std::array<double, 3>, 3>;

/// By elimination; false if the points do not determine the curve.
bool invert(Matrix matrix, size_t terms, Matrix& inverse) {
  inverse = {};
  for (size_t i = 0; i < terms; ++i) inverse[i][i] = 1;
  for (size_t column = 0; column < terms; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < terms; ++row) {
      if (std::abs(matrix[row][column]) > std::abs(matrix[pivot][column])) pivot = row;
    }
    if (std::abs(matrix[pivot][column]) < 1e-12) return false;
    std::swap(matrix[pivot], matrix[column]);
    std::swap(inverse[pivot], inverse[column]);
    const double by = matrix[column][column];
    for (size_t i = 0; i < terms; ++i) {
      matrix[column][i] /= by;
      inverse[column][i] /= by;
    }
    for (size_t row = 0; row < terms; ++row) {
      if (row == column) continue;
      const double times = matrix[row][column];
      for (size_t i = 0; i < terms; ++i) {
        matrix[row][i] -= times * matrix[column][i];
        inverse[row][i] -= times * inverse[column][i];
      }
    }
  }
  return true;
}

}  // namespace

double Curve::Model::at(double x) const {
  const double u = (x - middle) / spread;
  return of[0] + u * (of[1] + u * of[2]);
}

double Curve::Model::band(double x) const {
  if (free == 0) return std::numeric_limits<double>::infinity();
  const double u = (x - middle) / spread;
  const std::array<double, 3> row{1, u, u * u};
  double leverage = 0;
  for (size_t i = 0; i < terms; ++i) {
    for (size_t j = 0; j < terms; ++j) leverage += row[i] * inverse[i][j] * row[j];
  }
  const double deviation = std::sqrt(squares / static_cast<double>(free));
  return std::max(student(free) * deviation * std::sqrt(1 + leverage), 2 * error);
}

std::optional<Curve::Model> Curve::fit(const std::vector<CurvePoint>& points, size_t terms) {
  Model model;
  model.terms = terms;
  model.free = points.size() - terms;
  const auto [least, most] = std::ranges::minmax_element(points, {}, &CurvePoint::x);
  model.middle = (least->x + most->x) / 2;
  model.spread = (most->x - least->x) / 2;
  Matrix normal{};
  std::array<double, 3> right{};
  for (const CurvePoint& point : points) {
    const double u = (point.x - model.middle) / model.spread;
    const std::array<double, 3> row{1, u, u * u};
    for (size_t i = 0; i < terms; ++i) {
      right[i] += row[i] * point.y;
      for (size_t j = 0; j < terms; ++j) normal[i][j] += row[i] * row[j];
    }
  }
  if (!invert(normal, terms, model.inverse)) return std::nullopt;
  for (size_t i = 0; i < terms; ++i) {
    for (size_t j = 0; j < terms; ++j) model.of[i] += model.inverse[i][j] * right[j];
  }
  for (const CurvePoint& point : points) {
    const double off = std::abs(point.y - model.at(point.x));
    model.squares += off * off;
    model.error = std::max(model.error, off);
  }
  const double m = model.middle, s = model.spread;
  model.in_x = {model.of[0] - model.of[1] * m / s + model.of[2] * m * m / (s * s),
                model.of[1] / s - 2 * model.of[2] * m / (s * s), model.of[2] / (s * s)};
  return model;
}

std::optional<Curve> Curve::through(const std::vector<CurvePoint>& points) {
  std::set<double> different;
  for (const CurvePoint& point : points) different.insert(point.x);
  if (different.size() < 2) return std::nullopt;
  const std::optional<Model> line = fit(points, 2);
  if (!line) return std::nullopt;
  Curve curve;
  curve.points_ = points.size();
  curve.chosen_ = *line;
  if (different.size() < 4) return curve;
  const std::optional<Model> parabola = fit(points, 3);
  if (!parabola) return curve;
  const bool clearly =
      line->error > kRounding && parabola->squares < kClearlyBetter * line->squares;
  if (clearly) {
    curve.chosen_ = *parabola;
    // A parabola that bends down would say that much larger values take less.
    if (parabola->of[2] < 0) curve.other_ = *line;
    return curve;
  }
  const double uncertainty =
      std::sqrt(parabola->squares / static_cast<double>(parabola->free) * parabola->inverse[2][2]);
  if (line->error > kRounding && parabola->of[2] > kBend * uncertainty) curve.other_ = *parabola;
  return curve;
}

double Curve::upper(double x) const {
  const double sure = chosen_.at(x) + chosen_.band(x);
  return other_ ? std::max(sure, other_->at(x) + other_->error) : sure;
}

double Curve::lower(double x) const {
  const double sure = chosen_.at(x) - chosen_.band(x);
  return other_ ? std::min(sure, other_->at(x) - other_->error) : sure;
}

}  // namespace gpupeak::collector
