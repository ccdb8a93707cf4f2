// A line through measured points, or a parabola where that is clearly better, with how far off it
// may be: for predictions that are to be on the safe side. `gpupeak sweep` asks for it.
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
  /// None: fewer than two different x.
  static std::optional<Curve> through(const std::vector<CurvePoint>& points);

  double at(double x) const { return chosen_.at(x); }
  /// What the next point there will not be above, or below. Of a line through two points nobody
  /// knows how far off it is: infinitely.
  double upper(double x) const;
  double lower(double x) const;

  bool is_parabola() const { return chosen_.terms == 3; }
  /// y = constant + slope * x + square * x².
  double constant() const { return chosen_.in_x[0]; }
  double slope() const { return chosen_.in_x[1]; }
  double square() const { return chosen_.in_x[2]; }
  /// The largest distance of a point.
  double error() const { return chosen_.error; }
  size_t points() const { return points_; }

 private:
  /// By least squares, in (x - middle) / spread, so that large x lose no digits.
  struct Model {
    size_t terms = 0;
    std::array<double, 3> of{};
    std::array<double, 3> in_x{};
    std::array<std::array<double, 3>, 3> inverse{};  ///< of the normal equations
    double middle = 0, spread = 1;
    double squares = 0;  ///< sum of the squared distances
    double error = 0;
    size_t free = 0;  ///< points beyond those that it takes to draw it

    double at(double x) const;
    double band(double x) const;
  };
  static std::optional<Model> fit(const std::vector<CurvePoint>& points, size_t terms);

  Model chosen_;
  std::optional<Model> other_;  ///< one that cannot be ruled out, for upper()
  size_t points_ = 0;
};

}  // namespace gpupeak::collector
