// By how much a program has grown since something looked: since it was attached to, or within the
// windows in which its heap was recorded. What it had before is no part of it, but what of that it
// gives back is: who replaces a block by another has not grown.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpupeak::collector {

/// What devices hold by an attached program's doing: since the log's begin.
class DeviceGrowth {
 public:
  /// `live`: of what was allocated since.
  void set(uint64_t live) {
    live_ = live;
    peak_ = std::max(peak_, bytes());
  }
  void given_back(uint64_t bytes) { given_back_ += bytes; }
  void given_back_unknown() { is_known_ = false; }

  /// False: something was freed of before of which nobody said how much it was.
  bool is_known() const { return is_known_; }
  uint64_t given_back() const { return given_back_; }
  uint64_t bytes() const { return live_ - std::min(live_, given_back_); }
  uint64_t peak() const { return peak_; }

 private:
  uint64_t live_ = 0, given_back_ = 0, peak_ = 0;
  bool is_known_ = true;
};

}  // namespace gpupeak::collector
