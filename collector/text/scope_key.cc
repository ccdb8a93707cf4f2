#include "collector/text/scope_key.h"

#include <charconv>

namespace gpupeak::collector {
namespace {

constexpr std::string_view kTotal = "total", kHost = "host", kDevice = "device";

}  // namespace

std::optional<ScopeKey> ScopeKey::parse(std::string_view text) {
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
                         std::from_chars(text.data() + 1, end, ordinal).ptr == end && ordinal >= 0;
  return is_number ? std::optional(device(ordinal, kind)) : std::nullopt;
}

std::string ScopeKey::text() const {
  std::string text{side_ == Side::kTotal ? kTotal : side_ == Side::kHost ? kHost : kDevice};
  if (ordinal_ >= 0) text += ":" + std::to_string(ordinal_);
  if (!kind_.empty()) text += "/" + kind_;
  return text;
}

bool is_whole_device(std::string_view text) {
  const std::optional<ScopeKey> key = ScopeKey::parse(text);
  return key && key->is_whole_device();
}

}  // namespace gpupeak::collector
