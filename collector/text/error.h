// The two exceptions that leave the collector. tools/main.cc catches both, once, and turns them
// into exit codes. Nothing inside the collector prints or exits.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace gpupeak::collector {

/// A log that cannot be read: missing, not a log, cut inside its header, or made by a newer
/// gpupeak. Damage further in is no error: it is counted and reported as quality warnings.
class LogError : public std::runtime_error {
 public:
  LogError(const std::string& message, uint64_t offset)
      : std::runtime_error(message), offset_(offset) {}
  /// Where in the file reading stopped, in bytes.
  uint64_t offset() const { return offset_; }

 private:
  uint64_t offset_;
};

/// A request that makes no sense, for instance an unknown grouping.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  template <class Arg, class... Args>
  UsageError(fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args)
      : std::runtime_error(
            fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...)) {}
};

/// What an exception says, for a person.
inline std::string said_by(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) == nullptr
             ? error.what()
             : "not enough memory for gpupeak itself; a container or ulimit -v may limit it";
}

}  // namespace gpupeak::collector
