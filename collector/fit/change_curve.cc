#include "collector/fit/change_curve.h"

#include <algorithm>
#include <utility>

namespace gpupeak::collector {
namespace {

bool is_same(const WhatIfPoint& a, const WhatIfPoint& b) {
  return a.before == b.before && a.least == b.least && a.most == b.most;
}

void raise(WhatIfPoint& highest, const WhatIfPoint& other) {
  highest.before = std::max(highest.before, other.before);
  highest.least = std::max(highest.least, other.least);
  highest.most = std::max(highest.most, other.most);
}

}  // namespace

void ChangeCurve::set(uint64_t ticks, const WhatIfPoint& point) {
  if (!points_.empty() && is_same(points_.back(), point)) return;
  points_.push_back(point);
  points_.back().time = static_cast<int64_t>(ticks);
  if (points_.size() == kMostPoints) shorten();
}

void ChangeCurve::shorten() {
  const int64_t begin = points_.front().time;
  const int64_t width = (points_.back().time - begin) / static_cast<int64_t>(kStretches) + 1;
  std::vector<WhatIfPoint> kept;
  for (size_t first = 0; first < points_.size();) {
    const int64_t stretch = (points_[first].time - begin) / width;
    WhatIfPoint highest = points_[first];
    size_t last = first;
    for (size_t next = first + 1;
         next < points_.size() && (points_[next].time - begin) / width == stretch; ++next) {
      raise(highest, points_[next]);
      last = next;
    }
    kept.push_back(highest);
    if (!is_same(highest, points_[last])) kept.push_back(points_[last]);
    first = last + 1;
  }
  points_ = std::move(kept);
}

std::vector<WhatIfPoint> ChangeCurve::points() && {
  return std::move(points_);
}

}  // namespace gpupeak::collector
