// By how much a program has grown since it was attached to, or within the windows in which its heap
// was recorded. Memory from before is no part of it. But memory from before that is freed counts as
// less: replacing a block by another is no growth.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpupeak::collector {

/// What an attached program has taken of devices since the log began.
class DeviceGrowth {
 public:
  /// `live`: bytes that were allocated since then and are live.
  void set(uint64_t live) {
    live_ = live;
    peak_ = std::max(peak_, bytes());
  }
  void given_back(uint64_t bytes) { given_back_ += bytes; }
  void given_back_unknown() { is_known_ = false; }

  /// False: something from before was freed, and its size is not known.
  bool is_known() const { return is_known_; }
  uint64_t given_back() const { return given_back_; }
  uint64_t bytes() const { return live_ - std::min(live_, given_back_); }
  uint64_t peak() const { return peak_; }

 private:
  uint64_t live_ = 0, given_back_ = 0, peak_ = 0;
  bool is_known_ = true;
};

}  // namespace gpupeak::collector
