// Packs plain values into bytes and back, for files that only this command reads: caches and kept
// summaries. What is read is not trusted: if a value is missing, failed() is true from then on.
//
// in    1u, "abc"
// out   01 00 00 00  03 00 00 00 61 62 63
//
// Why not CBOR: a table of 20,000 names is read with 5 million instructions, and with 156 million
// by nlohmann::json::from_cbor. Caches exist to be fast.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace gpupeak::collector {

class BytePacker {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void number(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void count(size_t value) { number(static_cast<uint32_t>(value)); }
  void text(std::string_view value) {
    count(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class ByteUnpacker {
 public:
  explicit ByteUnpacker(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  requires std::is_trivially_copyable_v<T> T number() {
    T value{};
    if (rest_.size() < sizeof value) {
      failed_ = true;
      return value;
    }
    memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<uint32_t>();
    if (failed_ || size > rest_.size()) {
      failed_ = true;
      return "";
    }
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  /// A count of items that take at least `least` bytes each; fails if there are not that many
  /// bytes.
  uint32_t count(size_t least) {
    const auto value = number<uint32_t>();
    failed_ = failed_ || value > rest_.size() / least;
    return failed_ ? 0 : value;
  }
  bool failed() const { return failed_; }
  bool at_end() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

/// A checksum of the bytes. It finds damage, but not a change that somebody made on purpose.
inline uint64_t checksum(std::string_view bytes) {
  uint64_t mixed = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
    mixed = (mixed ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    mixed ^= mixed >> 29;
  }
  return mixed;
}

/// The bytes, with a text in front that says what they are, and a checksum.
inline std::string seal(std::string_view magic, std::string_view bytes) {
  BytePacker sum;
  sum.number(checksum(bytes));
  return std::string(magic) + sum.bytes() + std::string(bytes);
}

/// The bytes that were sealed with that text; nullopt for anything else.
inline std::optional<std::string_view> unseal(std::string_view magic, std::string_view sealed) {
  if (!sealed.starts_with(magic)) return std::nullopt;
  sealed.remove_prefix(magic.size());
  uint64_t sum = 0;
  if (sealed.size() < sizeof sum) return std::nullopt;
  memcpy(&sum, sealed.data(), sizeof sum);
  sealed.remove_prefix(sizeof sum);
  if (checksum(sealed) != sum) return std::nullopt;
  return sealed;
}

}  // namespace gpupeak::collector
