// ONNX Runtime's own rule for the one piece of memory that a session's runs share out among their
// activations. The first run with some input shapes shows when each activation is asked for and
// given back. The rule puts each into the smallest gap between those that live then, or behind the
// last of them if no gap is large enough.
//
//   allocate(1, 512)   |1111|
//   allocate(2, 512)   |1111|2222|
//   free(1)            |····|2222|
//   allocate(3, 768)   |····|2222|333333|     bytes() is 1,792 from here on, and highest()
//                                             has parts 2 and 3
//
// The same rule over the same requests gives the same size, to the byte. activation_plans.h makes
// these calls with what a log says of the first run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpupeak::collector {

class MemoryPattern {
 public:
  struct Part {
    uint64_t offset = 0, bytes = 0;
    size_t request = 0;
    bool operator==(const Part&) const = default;
  };

  void allocate(size_t request, uint64_t asked_bytes);
  void free(size_t request);

  /// The size of the piece.
  uint64_t bytes() const { return bytes_; }
  /// The parts, by offset, at the moment at which the piece became as large as it is.
  const std::vector<Part>& highest() const { return highest_; }
  /// How many parts it has looked at: what the work costs.
  uint64_t looks() const { return looks_; }

 private:
  std::vector<Part> live_;  // in the order in which the rule goes through them
  std::vector<Part> highest_;
  uint64_t bytes_ = 0, looks_ = 0;
};

}  // namespace gpupeak::collector
