// Text without libc's formatting: a bounded buffer, and one-line messages on stderr. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace gpupeak::preload {

/// Parts of a text, cut to its length: string_view::substr would bring in libstdc++'s exceptions.
constexpr std::string_view head(std::string_view text, size_t bytes) {
  return {text.data(), bytes < text.size() ? bytes : text.size()};
}
constexpr std::string_view tail(std::string_view text, size_t from) {
  const size_t skipped = from < text.size() ? from : text.size();
  return {text.data() + skipped, text.size() - skipped};
}

/// Where the first `c` is, or npos. (string_view::find would call memchr, and the program may have
/// a memchr of its own.)
constexpr size_t position(std::string_view text, char c) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == c) return i;
  }
  return std::string_view::npos;
}

/// A text of limited length: it is cut where it would not fit, and always terminated.
template <size_t kCapacity>
class Text {
 public:
  Text() = default;
  /// Of parts one behind the other: texts and numbers.
  template <typename... Parts>
  explicit Text(const Parts&... parts) {
    (add(parts), ...);
  }
  Text& add(std::string_view text) {
    for (char c : text) {
      if (bytes_ + 1 < kCapacity) buffer_[bytes_++] = c;
    }
    buffer_[bytes_] = 0;
    return *this;
  }
  template <typename Number>
  requires std::is_integral_v<Number> Text& add(Number value) {
    auto number = static_cast<uint64_t>(value);
    char digits[20];
    size_t n = sizeof digits;
    do {
      digits[--n] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    return add(std::string_view(digits + n, sizeof digits - n));
  }
  Text& add_hex(uint64_t number, int digits = 16) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (int shift = 4 * digits - 4; shift >= 0; shift -= 4)
      add(std::string_view(kDigits.data() + (number >> shift & 15), 1));
    return *this;
  }
  /// Takes back the last character if it is `c`.
  void drop_last(char c) {
    if (bytes_ > 0 && buffer_[bytes_ - 1] == c) buffer_[--bytes_] = 0;
  }
  void clear() { buffer_[bytes_ = 0] = 0; }
  std::string_view view() const { return {buffer_, bytes_}; }
  operator std::string_view() const { return view(); }
  const char* c_str() const { return buffer_; }

 private:
  size_t bytes_ = 0;
  char buffer_[kCapacity] = {};
};

using Path = Text<4096>;

/// Remembers which file standard error is, so that say() never writes into a file that the program
/// opened later under the same number.
void remember_stderr();
/// Writes "gpupeak: <line>\n" to standard error, unless that is closed or another file by now, or
/// with GPUPEAK_QUIET.
void say(std::string_view line);
/// Whether standard error is still what it was at the start.
bool stderr_is_unchanged();
/// The usual word for an errno value, for messages.
std::string_view error_text(long error);

inline bool begins(const char* text, std::string_view with) {
  return with.empty() || (*text == with[0] && strncmp(text, with.data(), with.size()) == 0);
}

// The last part of a path. HOOK-SAFE.

/// "libc.so.6" for "/lib/libc.so.6", and for "libc.so.6".
inline const char* file_name(const char* path) {
  const char* const slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}
inline std::string_view file_name(std::string_view path) {
  const size_t begin = path.rfind('/') + 1;
  return {path.data() + begin, path.size() - begin};
}

// Writes wide characters as UTF-8: for names of NVTX and Python. HOOK-SAFE.

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
