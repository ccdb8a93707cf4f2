// The program's errno: what a hook does beside the real function must not change it. HOOK-SAFE.
#pragma once

#include <cerrno>

#include "base/compiler.h"

namespace gpupeak::preload {

/// Gives the program its errno back at the end.
class KeptErrno : NoCopies {
 public:
  __attribute__((always_inline)) KeptErrno() : kept_(errno) {}
  __attribute__((always_inline)) ~KeptErrno() { errno = kept_; }
  /// Calls the real function. It finds the program's errno, and the program finds the errno that it
  /// left, whatever we do before and after.
  template <typename Function, typename... Arguments>
  __attribute__((always_inline)) auto call(const Function& function, Arguments... arguments) {
    errno = kept_;
    const auto result = function(arguments...);
    kept_ = errno;
    return result;
  }

 private:
  int kept_;
};

}  // namespace gpupeak::preload
