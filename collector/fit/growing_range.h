// PyTorch's segments that grow in place (expandable_segments:True), by its rules: one range of
// addresses for the small requests of a stream, one for the large ones. A request gets the smallest
// idle piece that is large enough, and the rest of it stays idle. The last piece counts as endless,
// since memory can be mapped behind it: it is taken where no other is large enough, and grows by
// handles of 2 MiB or of 20 MiB where it is too small itself.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace gpupeak::collector {

class GrowingRange {
 public:
  explicit GrowingRange(uint64_t handle_bytes) : handle_bytes_(handle_bytes) {}

  /// Returns where the block lies.
  uint64_t give(uint64_t bytes);
  void take_back(uint64_t address, uint64_t bytes);
  uint64_t mapped() const { return mapped_; }

 private:
  void add_idle(uint64_t address, uint64_t bytes);
  bool is_last(uint64_t address, uint64_t bytes) const;
  void remove_idle(std::map<uint64_t, uint64_t>::iterator piece);

  uint64_t handle_bytes_;
  uint64_t mapped_ = 0;
  std::map<uint64_t, uint64_t> idle_;                 // address to bytes; never touching
  std::set<std::pair<uint64_t, uint64_t>> by_bytes_;  // bytes, address
};

}  // namespace gpupeak::collector
