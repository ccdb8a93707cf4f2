#include <algorithm>
#include <iterator>
#include <protozero/varint.hpp>
#include <utility>

#include "collector/log/byte_reader.h"
#include "collector/merge/merge.h"

namespace gpupeak::collector {
namespace {

/// If steps must be joined: first those that differ by less than this part of the peak, then by
/// less than twice as much, and so on.
constexpr uint64_t kFinest = 4096;

}  // namespace

void StepList::add(uint64_t ns, uint64_t bytes) {
  if (bytes == last_bytes_) return;
  put(ns - last_ns_);
  const auto change = static_cast<int64_t>(bytes - last_bytes_);
  put(protozero::encode_zigzag64(change));
  last_ns_ = ns;
  last_bytes_ = bytes;
}

void StepList::put(uint64_t value) {
  protozero::write_varint(std::back_inserter(data_), value);
}

bool StepList::Reader::next() {
  if (at_ == end_) return false;
  uint64_t step = 0;
  uint64_t coded = 0;
  at_ = read_varint(at_, end_, step);
  at_ = read_varint(at_, end_, coded);
  ns_ += step;
  grows_ = (coded & 1) == 0;
  bytes_ += static_cast<uint64_t>(protozero::decode_zigzag64(coded));
  return true;
}

void HeldCurve::add(uint64_t ns, uint64_t bytes) {
  last_ns_ = std::max(last_ns_, ns);
  peak_bytes_ = std::max(peak_bytes_, bytes);
  gather(last_ns_, bytes);
  if (steps_.coded_bytes() > kRoomBytes) coarsen(kRoomBytes / 2);
}

void HeldCurve::gather(uint64_t ns, uint64_t bytes) {
  if (bucket_) {
    const uint64_t least = std::min(bucket_->least, bytes);
    const uint64_t most = std::max(bucket_->most, bytes);
    if (most - least <= tolerance_) {
      bucket_->least = least;
      bucket_->most = most;
      return;
    }
    steps_.add(bucket_->ns, bucket_->most);
  }
  bucket_ = {ns, bytes, bytes};
}

void HeldCurve::flush() {
  if (bucket_) steps_.add(bucket_->ns, bucket_->most);
  bucket_.reset();
}

void HeldCurve::coarsen(size_t room_bytes) {
  flush();
  while (steps_.coded_bytes() > room_bytes) {
    tolerance_ = std::max({2 * tolerance_, peak_bytes_ / kFinest, uint64_t{1}});
    error_bytes_ += tolerance_;
    const StepList finer = std::exchange(steps_, {});
    for (StepList::Reader step(finer); step.next();) gather(step.ns(), step.bytes());
    flush();
  }
}

}  // namespace gpupeak::collector
