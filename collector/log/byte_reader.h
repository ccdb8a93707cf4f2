// Reads varints and strings from bytes that may be damaged, never past the end that was given. All
// that decodes records uses it. Example: the bytes 90 4e are the varint 10,000.
//
// Varints are written by protozero, and read here. protozero's reader throws where bytes are cut
// off: here that is a result like any other, since a log's last chunk often ends within a record.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <protozero/varint.hpp>
#include <string_view>

namespace gpupeak::collector {

/// Reads one LEB128 varint at `at`. Returns the byte after it, or nullptr if it is cut off by `end`
/// or longer than 64 bits.
inline const uint8_t* read_varint(const uint8_t* at, const uint8_t* end, uint64_t& value) {
  if (at < end && *at < 0x80) [[likely]] {
    value = *at;
    return at + 1;
  }
  uint64_t result = 0;
  for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
    const uint8_t byte = *at++;
    result |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      value = result;
      return at;
    }
  }
  return nullptr;
}

/// The most that a varint of 64 bits takes.
inline constexpr ptrdiff_t kVarintBytes = 10;

/// The same as read_varint(), without a branch on the varint's length: in hot records the processor
/// cannot guess it. kVarintBytes must be readable at `at`.
[[gnu::always_inline]] inline const uint8_t* read_inner_varint(const uint8_t* at, uint64_t& value) {
  static_assert(std::endian::native == std::endian::little);
  uint32_t word = 0;
  memcpy(&word, at, sizeof word);
  const uint32_t last_bytes = ~word & 0x80808080;
  if (last_bytes == 0) [[unlikely]]
    return read_varint(at, at + kVarintBytes, value);
  word &= last_bytes ^ (last_bytes - 1);
  value = (word & 0x7f) | (word >> 1 & 0x3f80) | (word >> 2 & 0x1fc000) | (word >> 3 & 0xfe00000);
  return at + std::countr_zero(last_bytes) / 8 + 1;
}

/// The fields of one extended record. A writer that has no room for a field leaves out that field
/// and all that follow, so a field past the end reads as zero or empty.
class ByteReader {
 public:
  ByteReader(const uint8_t* begin, size_t bytes) : at_(begin), end_(begin + bytes) {}

  uint64_t u() {
    uint64_t value = 0;
    if (at_ == end_) return 0;
    const uint8_t* next = read_varint(at_, end_, value);
    if (next == nullptr) {
      malformed_ = true;
      at_ = end_;
      return 0;
    }
    at_ = next;
    return value;
  }
  int64_t z() { return protozero::decode_zigzag64(u()); }
  uint32_t u32() {
    const uint64_t value = u();
    if (value > UINT32_MAX) malformed_ = true;
    return value > UINT32_MAX ? 0 : static_cast<uint32_t>(value);
  }
  std::string_view s() {
    const uint64_t length = u();
    if (length > static_cast<uint64_t>(end_ - at_)) {
      malformed_ = true;
      at_ = end_;
      return {};
    }
    std::string_view text(reinterpret_cast<const char*>(at_), length);
    at_ += length;
    return text;
  }

  bool at_end() const { return at_ == end_; }
  /// A varint was cut off or too long, a string longer than its record, a 32-bit field too large.
  bool malformed() const { return malformed_; }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  bool malformed_ = false;
};

}  // namespace gpupeak::collector
