#include "collector/summary/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace gpupeak::collector {
namespace {

/// A parabola is better if it leaves less than this part of a line's squared distances.
constexpr double kClearlyBetter = 0.1;
/// A line that is off by no more than this is off by rounding to pages alone.
constexpr double kRounding = 2 << 20;
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
  const auto [least, most] =
      std::minmax_element(points.begin(), points.end(),
                          [](const CurvePoint& a, const CurvePoint& b) { return a.x < b.x; });
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
