#include "collector/text/sanitize.h"

#include <sha2.h>

#include <algorithm>

#include "collector/text/function_names.h"
#include "collector/text/name_match.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr size_t kHashBytes = 6;

/// Whether the text is a word of gpupeak's own, a name of the C library, or of the driver.
bool is_public(std::string_view text) {
  static constexpr std::string_view kWords =
      "arg exe cwd host boot python python.off pools.off pools.onnxruntime pools.xla start main "
      "exit load compile create_env append_provider create_session run release_session "
      "libgpupeak.so libc.so.6 libstdc++.so.6 libgcc_s.so.1 libm.so.6 libpthread.so.0 "
      "ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 libcuda.so.1";
  if (text.empty() || text == "operator new(unsigned long)" ||
      text == "operator new[](unsigned long)" || is_word_of(kWords, text))
    return true;
  const bool plain = std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  });
  if (!plain) return false;
  const auto of_family = [&](std::string_view prefix) {  // cuMemAlloc_v2, not cutlass_kernel
    return text.starts_with(prefix) && text.size() > prefix.size() && text[prefix.size()] >= 'A' &&
           text[prefix.size()] <= 'Z';
  };
  return of_family("cu") || of_family("cuda") || is_start_code(text) || is_plumbing("", text);
}

std::string pseudonym(std::string_view text, std::string_view key) {
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA2_CTX context;
  SHA256Init(&context);
  const auto add = [&](std::string_view bytes) {
    SHA256Update(&context, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  };
  add(key);
  add(std::string_view("\0", 1));
  add(text);
  SHA256Final(digest, &context);
  return "x" + hex_text({reinterpret_cast<const char*>(digest), kHashBytes});
}

void append_code_point_escape(std::string& out, uint32_t code_point) {
  out += "\\u{";
  for (int shift = code_point > 0xffff ? 20 : 12; shift >= 0; shift -= 4)
    out += kHexDigits[(code_point >> shift) & 15];
  out += '}';
}

/// Characters that are invisible or reorder text: controls, and those that Unicode calls default
/// ignorable. The list is our own, since utf8proc knows no properties of code points that are not
/// assigned yet, and U+E0000 to U+E0FFF are reserved for more of this kind.
bool hides_or_reorders(uint32_t c) {
  struct Range {
    uint32_t first, last;
  };
  static constexpr Range kRanges[] = {
      {0x80, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},    {0x61c, 0x61c},   {0x115f, 0x1160},
      {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},  {0x2028, 0x202e}, {0x2060, 0x206f},
      {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},  {0xffa0, 0xffa0}, {0xfff0, 0xfffb},
      {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
  return std::ranges::any_of(
      kRanges, [c](const Range& range) { return c >= range.first && c <= range.last; });
}

/// Whether a CI would take it for a command to itself: GitHub's `::error …::` at the front of a
/// line, also behind blanks, and `##[…`, `##vso[…`, `##teamcity[…` anywhere.
bool begins_command(std::string_view text, bool at_front) {
  for (const std::string_view command : {"##[", "##vso[", "##teamcity["}) {
    if (text.starts_with(command)) return true;
  }
  if (!at_front || !text.starts_with("::")) return false;
  const size_t name_end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", 2);
  return name_end > 2 && name_end != std::string_view::npos &&
         (text[name_end] == ' ' || text[name_end] == ':') &&
         text.find("::", name_end) != std::string_view::npos;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool at_front = true;  // at the front of what may be a line
  while (!text.empty()) {
    const auto first = static_cast<uint8_t>(text.front());
    const Character next = first_character(text);
    const bool is_command = (first == ':' || first == '#') && begins_command(text, at_front);
    at_front = at_front && first == ' ';
    const bool is_invalid = first >= 0x80 && next.code_point == 0;
    if (first < 0x20 || first == 0x7f || is_command || is_invalid)
      out += "\\x" + hex_text(text.substr(0, 1));
    else if (hides_or_reorders(next.code_point))
      append_code_point_escape(out, next.code_point);
    else
      out += text.substr(0, next.bytes);
    text.remove_prefix(next.bytes);
  }
  return out;
}

std::string Sanitizer::text(std::string_view text) const {
  return key_ && !is_public(text) ? pseudonym(text, *key_) : escape(text);
}

std::string hex_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += kHexDigits[static_cast<uint8_t>(byte) >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::string Sanitizer::id(std::string_view id) const {
  return is_confidential() ? text(id) : hex_text(id);
}

std::string Sanitizer::gpu_uuid(std::string_view raw, std::string_view name) const {
  constexpr size_t kBytes = 16;
  if (raw.size() != kBytes) return "";
  std::string digits = id(raw);
  if (!is_confidential())
    for (const size_t at : {20, 16, 12, 8}) digits.insert(at, 1, '-');
  return (name.find(" MIG ") != std::string_view::npos ? "MIG-" : "GPU-") + digits;
}

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool is_invalid = text.starts_with("\xef\xbf\xbe") || text.starts_with("\xef\xbf\xbf");
    switch (text.front()) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += is_invalid ? '?' : text.front();
    }
    text.remove_prefix(is_invalid ? 3 : 1);
  }
  return out;
}

}  // namespace gpupeak::collector
