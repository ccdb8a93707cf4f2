// A line through measured points, or a parabola where that is clearly better, and how far off it
// may be. For predictions that must be on the safe side. `gpupeak sweep` calls it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace gpupeak::collector {

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

}  // namespace gpupeak::collector
