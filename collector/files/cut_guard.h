// A file can be cut by anyone who may write it, while it is mapped here. Reading behind its new end
// raises SIGBUS, which would end the process. With this, zeros are read there instead, and callers
// can ask whether that happened.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::collector {

/// Guards all mappings of this process from now on, also those that have no CutGuard (libelf's).
void guard_mappings();

/// How many times a page of any mapping was missing. If this changes while something is read, what
/// was read is not to be believed.
uint64_t cut_count();

/// Watches one mapping. At most some hundred are watched; cut_count() counts all.
class CutGuard {
 public:
  CutGuard() = default;
  CutGuard(const void* begin, size_t bytes);
  ~CutGuard();
  CutGuard(const CutGuard&) = delete;
  CutGuard& operator=(const CutGuard&) = delete;

  /// The mapping now begins or ends elsewhere.
  void set(const void* begin, size_t bytes);
  bool was_cut() const;

 private:
  size_t slot_ = kNone;
  static constexpr size_t kNone = SIZE_MAX;
};

}  // namespace gpupeak::collector
