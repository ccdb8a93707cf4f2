// Builds one extended record (log_format.h) on the stack. Whoever logs a rare event fills one and
// hands it to emit() or define(). HOOK-SAFE.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace gpupeak::preload {

inline uint8_t* put_varint(uint8_t* at, uint64_t value) {
  while (value >= 0x80) {
    *at++ = static_cast<uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *at++ = static_cast<uint8_t>(value);
  return at;
}
/// The same for hot records: without a branch on the length, which is as good as random there, for
/// all that is likely. Stores 4 bytes, zeros behind the value.
inline __attribute__((always_inline)) uint8_t* put_hot_varint(uint8_t* at, uint64_t value) {
  if (__builtin_expect(value >> 28 != 0, 0)) return put_varint(at, value);
  const auto bits = static_cast<uint32_t>(value);
  uint32_t spread = (bits & 0x3fff) | (bits & 0x0fffc000) << 2;
  spread = (spread & 0x007f007f) | (spread & 0x3f803f80) << 1;
  const auto highest_bit = static_cast<uint32_t>(31 - __builtin_clz(spread | 1));
  const uint32_t more = highest_bit / 8;
  spread |= 0x00808080u >> (~highest_bit & 24);  // on all bytes but the last, `more`
  memcpy(at, &spread, sizeof spread);
  return at + more + 1;
}
inline uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

class Record {
 public:
  static constexpr size_t kMaxBody = 1536;
  static constexpr size_t kMaxString = 1024;

  explicit Record(uint8_t tag) : tag_(tag) {}
  /// Fields in the order that log_format.h gives; dt is emit()'s business. A field that does not
  /// fit is left out with all that follow, which a reader takes as zero.
  Record& u(uint64_t value) {
    if (bytes_ + 10 <= kMaxBody) {
      bytes_ = static_cast<size_t>(put_varint(body_ + bytes_, value) - body_);
    }
    return *this;
  }
  Record& s(std::string_view text) {
    if (text.size() > kMaxString) text = {text.data(), kMaxString};
    if (bytes_ + 10 + text.size() <= kMaxBody) {
      u(text.size());
      memcpy(body_ + bytes_, text.data(), text.size());
      bytes_ += text.size();
    }
    return *this;
  }
  uint8_t tag() const { return tag_; }
  const uint8_t* body() const { return body_; }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t tag_;
  size_t bytes_ = 0;
  uint8_t body_[kMaxBody];
};

}  // namespace gpupeak::preload
