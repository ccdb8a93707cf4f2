// The last part of a path.
#pragma once

#include <string_view>

namespace gpupeak::collector {

/// "libc.so.6" of "/lib/libc.so.6", and of "libc.so.6".
inline std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace gpupeak::collector
