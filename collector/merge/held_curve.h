// What one process held over time, in bounded memory: steps of a few bytes each. If there are too
// many, neighbours that differ little become one step, as high as the higher of them. So the curve
// is never below the truth, and error_bytes() tells how far above it may be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace gpupeak::collector {

/// Steps by time. Each is stored as the difference from the one before.
class StepList {
 public:
  void add(uint64_t ns, uint64_t bytes);
  size_t coded_bytes() const { return data_.size(); }
  uint64_t last_ns() const { return last_ns_; }

  class Reader {
   public:
    explicit Reader(const StepList& steps)
        : at_(steps.data_.data()), end_(at_ + steps.data_.size()) {}
    bool next();
    uint64_t ns() const { return ns_; }
    uint64_t bytes() const { return bytes_; }
    bool grows() const { return grows_; }

   private:
    const uint8_t* at_;
    const uint8_t* end_;
    uint64_t ns_ = 0, bytes_ = 0;
    bool grows_ = false;
  };

 private:
  void put(uint64_t value);

  std::vector<uint8_t> data_;
  uint64_t last_ns_ = 0, last_bytes_ = 0;
};

class HeldCurve {
 public:
  /// Bytes that the curves of one process may take together.
  static constexpr size_t kRoomBytes = 128 << 10;

  HeldCurve() = default;
  /// Makes a curve again from its steps(), peak_bytes() and error_bytes().
  HeldCurve(StepList steps, uint64_t peak_bytes, uint64_t error_bytes)
      : steps_(std::move(steps)), peak_bytes_(peak_bytes), error_bytes_(error_bytes) {}

  /// A time that runs backwards, as in a damaged log, counts as the last one.
  void add(uint64_t ns, uint64_t bytes);
  /// Call it after the last add(). Joins steps until they fit into so many bytes.
  void finish(size_t room_bytes) { coarsen(room_bytes); }
  /// Call it after finish(). Nothing is held from this time on.
  void end_at(uint64_t ns) { steps_.add(std::max(ns, steps_.last_ns()), 0); }
  /// Tells that the value was at least this between the last step and the next one.
  void raise_peak(uint64_t bytes) { peak_bytes_ = std::max(peak_bytes_, bytes); }

  /// Call these after finish().
  const StepList& steps() const { return steps_; }
  uint64_t peak_bytes() const { return peak_bytes_; }
  uint64_t error_bytes() const { return error_bytes_; }

 private:
  void gather(uint64_t ns, uint64_t bytes);
  void flush();
  void coarsen(size_t room_bytes);

  struct Bucket {
    uint64_t ns, least, most;
  };
  StepList steps_;
  std::optional<Bucket> bucket_;  ///< changes that are not in steps_ yet
  uint64_t last_ns_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t tolerance_ = 0;  ///< by how much the values of one step may differ
  uint64_t error_bytes_ = 0;
};

}  // namespace gpupeak::collector
