// The last part of a path.
#pragma once

#include <string>
#include <string_view>

namespace gpupeak::collector {

/// "libc.so.6" of "/lib/libc.so.6", and of "libc.so.6".
inline std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

/// A file of the same name as `path` in the folder of `other`: files that belong together may have
/// been copied together.
inline std::string path_beside(const std::string& other, std::string_view path) {
  return other.substr(0, other.rfind('/') + 1) + std::string(file_name(path));
}

}  // namespace gpupeak::collector
