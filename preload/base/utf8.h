// Writes wide characters as UTF-8: for names of NVTX and Python. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

/// Appends one character to `buffer`, of which `used` bytes are taken. False if it does not fit, so
/// that a text never ends inside a character. What is no character becomes U+FFFD. U+DC80 to
/// U+DCFF, by which Python stands for bytes that it could not decode, become those bytes.
inline bool put_utf8(char* buffer, size_t capacity, size_t& used, uint32_t c) {
  const bool is_byte = c >= 0xdc80 && c <= 0xdcff;
  if (!is_byte && (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))) c = 0xfffd;
  const size_t bytes = c < 0x80 || is_byte ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  if (used + bytes > capacity) return false;
  const auto put = [&](uint32_t byte) { buffer[used++] = static_cast<char>(byte); };
  if (bytes == 1) {
    put(c & 0xff);
    return true;
  }
  put((bytes == 2 ? 0xc0 : bytes == 3 ? 0xe0 : 0xf0) | c >> 6 * (bytes - 1));
  for (size_t i = bytes - 1; i-- > 0;) put(0x80 | (c >> 6 * i & 0x3f));
  return true;
}

}  // namespace gpupeak::preload
