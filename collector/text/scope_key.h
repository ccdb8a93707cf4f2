// A scope: which memory a sum is of. The summary, JSON and the command line have it as text:
//
//   total                 all of it
//   host                  host/heap
//   device                device/linear            all GPUs
//   device:0              device:0/linear          one GPU
//
// Only this class makes such texts and takes them apart.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpupeak::collector {

class ScopeKey {
 public:
  enum class Side : uint8_t { kTotal, kHost, kDevice };

  static ScopeKey total() { return {Side::kTotal, -1, ""}; }
  /// `kind`: "heap", "linear" … (kind_name()); empty: the sum of all kinds that count.
  static ScopeKey host(std::string_view kind = "") { return {Side::kHost, -1, kind}; }
  static ScopeKey devices(std::string_view kind = "") { return {Side::kDevice, -1, kind}; }
  /// `ordinal` < 0: all devices.
  static ScopeKey device(int32_t ordinal, std::string_view kind = "") {
    return {Side::kDevice, ordinal, kind};
  }
  /// The scope of a text; std::nullopt: it is no such text.
  static std::optional<ScopeKey> parse(std::string_view text) {
    if (text == kTotal) return total();
    std::string_view kind;
    if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
      kind = text.substr(slash + 1);
      text = text.substr(0, slash);
      if (kind.empty()) return std::nullopt;
    }
    if (text == kHost) return host(kind);
    if (!text.starts_with(kDevice)) return std::nullopt;
    text.remove_prefix(kDevice.size());
    if (text.empty()) return devices(kind);
    int32_t ordinal = -1;
    const char* const end = text.data() + text.size();
    const bool is_number = text.front() == ':' &&
                           std::from_chars(text.data() + 1, end, ordinal).ptr == end &&
                           ordinal >= 0;
    return is_number ? std::optional(device(ordinal, kind)) : std::nullopt;
  }

  std::string text() const {
    std::string text{side_ == Side::kTotal ? kTotal : side_ == Side::kHost ? kHost : kDevice};
    if (ordinal_ >= 0) text += ":" + std::to_string(ordinal_);
    if (!kind_.empty()) text += "/" + kind_;
    return text;
  }
  Side side() const { return side_; }
  const std::string& kind() const { return kind_; }
  /// The device, if the scope is of one device.
  std::optional<int32_t> ordinal() const {
    return ordinal_ >= 0 ? std::optional(ordinal_) : std::nullopt;
  }
  /// Whether it is all memory of one device that counts into its sum.
  bool is_whole_device() const { return ordinal_ >= 0 && kind_.empty(); }

  bool operator==(const ScopeKey&) const = default;

 private:
  static constexpr std::string_view kTotal = "total", kHost = "host", kDevice = "device";

  ScopeKey(Side side, int32_t ordinal, std::string_view kind)
      : side_(side), ordinal_(ordinal < 0 ? -1 : ordinal), kind_(kind) {}

  Side side_;
  int32_t ordinal_;
  std::string kind_;
};

/// Whether `text` is the scope of all memory of one device.
inline bool is_whole_device(std::string_view text) {
  const std::optional<ScopeKey> key = ScopeKey::parse(text);
  return key && key->is_whole_device();
}

}  // namespace gpupeak::collector
