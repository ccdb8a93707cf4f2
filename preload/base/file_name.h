// The last part of a path. HOOK-SAFE.
#pragma once

#include <cstring>
#include <string_view>

namespace gpupeak::preload {

/// "libc.so.6" for "/lib/libc.so.6", and for "libc.so.6".
inline const char* file_name(const char* path) {
  const char* const slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}
inline std::string_view file_name(std::string_view path) {
  const size_t begin = path.rfind('/') + 1;
  return {path.data() + begin, path.size() - begin};
}

}  // namespace gpupeak::preload
