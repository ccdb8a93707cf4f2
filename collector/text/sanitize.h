// Makes text from a log, a file or the environment safe to show, and with --confidential
// meaningless. Every text of a log that enters a Summary or the dump goes through its Sanitizer, so
// that no writer can forget it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpupeak::collector {

// How deep the values of a JSON text lie within each other. Asked before a text of others is
// parsed: to copy or write values that lie 100,000 deep takes more stack than there is, and each
// level takes fifty times its two bytes.

inline bool nests_deeper_than(size_t most, std::string_view json) {
  size_t levels = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++levels > most) return true;
    } else if (!in_string && (c == ']' || c == '}') && levels > 0) {
      --levels;
    }
  }
  return false;
}

/// Makes the text valid UTF-8 that shows all it has. Control characters (C0, DEL, C1), marks that
/// reorder or hide text or are invisible, and bytes that are no UTF-8 become \xNN or \u{NNNN}. So
/// does the front of what a CI would take for a command to itself. Use it alone for text that gives
/// nothing away: ours, the driver's, the hardware's, the command line's.
std::string escape(std::string_view text);

/// The bytes as hexadecimal digits.
std::string hex_text(std::string_view bytes);

/// Shows a log's own texts as they are, or confidential.
class Sanitizer {
 public:
  Sanitizer() = default;
  /// Confidential: equal texts give equal hashes, in all logs with the same `key`. With an empty
  /// key, somebody who guesses a text can check the guess.
  explicit Sanitizer(std::string key) : key_(std::move(key)) {}

  bool is_confidential() const { return key_.has_value(); }
  /// escape(). If confidential: "x" and a hash, unless all programs have that name (malloc, main,
  /// libc.so.6, cuMemAlloc_v2 …).
  std::string text(std::string_view text) const;
  /// hex_text(), for what identifies a GPU or a file. If confidential: a hash.
  std::string id(std::string_view id) const;
  /// A GPU's UUID as nvidia-smi and CUDA_VISIBLE_DEVICES write it, of the driver's 16 bytes; empty:
  /// it has none. A MIG instance has a UUID of its own, and its name says what it is
  /// ("NVIDIA H200 MIG 1g.18gb"). If confidential: a hash.
  std::string gpu_uuid(std::string_view raw, std::string_view name) const;

 private:
  std::optional<std::string> key_;
};

// Text for XML and HTML: SVG charts, JUnit reports, Markdown that may hold tags.

/// For text and attributes. `text` must have gone through escape(). Then only U+FFFE and U+FFFF are
/// left that XML does not allow; they become "?".
std::string xml_text(std::string_view text);

// How the CSV writers quote.

/// A field as RFC 4180 has it. A text that begins like a formula gets an apostrophe in front, since
/// spreadsheets would run it, whoever wrote it.
inline std::string csv_field(const std::string& text) {
  constexpr const char* kFormulas = "=+-@\t\r";
  const bool is_formula =
      !text.empty() && std::string(kFormulas).find(text[0]) != std::string::npos;
  const std::string safe = is_formula ? "'" + text : text;
  if (safe.find_first_of(",\"\r\n") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace gpupeak::collector
