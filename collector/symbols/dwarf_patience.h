// How much of one module's debug information may still be read. Real information is read about
// once. Information that was made to do harm shares one long list of ranges, or one tree, among all
// its functions.
#pragma once

#include <cstdint>

namespace gpupeak::collector {

class DwarfPatience {
 public:
  /// `bytes`: the file's. Its sections may be compressed.
  explicit DwarfPatience(uint64_t bytes)
      : ranges_(kAlways + kPerByte * bytes), entries_(kAlways + kPerByte * bytes) {}

  /// False: it is at its end; ask for nothing more.
  bool take_range() { return take(ranges_, 1); }
  bool take_entry() { return take(entries_, 1); }
  /// Takes steps through what is gone through again and again: a byte, or something as cheap, is
  /// one step.
  bool walk(uint64_t steps) { return take(steps_, steps); }
  /// Something was left out, or nearly.
  bool is_at_end() const { return ranges_ == 0 || entries_ == 0 || steps_ == 0; }

 private:
  static constexpr uint64_t kAlways = 1 << 20, kPerByte = 4;
  static bool take(uint64_t& left, uint64_t count) {
    left = left > count ? left - count : 0;
    return left > 0;
  }
  uint64_t ranges_, entries_;
  uint64_t steps_ = uint64_t{1} << 30;
};

}  // namespace gpupeak::collector
