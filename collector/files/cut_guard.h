// Whoever may write a file can cut it while it is mapped here; to read behind its end then raises
// SIGBUS. In place of an end of the process zeros are read there, and whoever asks is told.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::collector {

/// From here on, in this process: of mappings that are not guarded by name (libelf's) too.
void guard_mappings();

/// How many times a page of any mapping was not there any more. What was read before and after a
/// change of it is not to be believed.
uint64_t cut_count();

/// One mapping. At most some hundred are told apart; of others cut_count() knows.
class CutGuard {
 public:
  CutGuard() = default;
  CutGuard(const void* begin, size_t bytes);
  ~CutGuard();
  CutGuard(const CutGuard&) = delete;
  CutGuard& operator=(const CutGuard&) = delete;

  /// It begins or ends elsewhere now.
  void set(const void* begin, size_t bytes);
  bool was_cut() const;

 private:
  size_t slot_ = kNone;
  static constexpr size_t kNone = SIZE_MAX;
};

}  // namespace gpupeak::collector
