// Makes text from a log, a file or the environment safe to show, and with --confidential
// meaningless. Everything of a log that enters a Summary or the dump goes through its Sanitizer, so
// that no writer can forget it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpupeak::collector {

/// Valid UTF-8 without control characters: those (C0, DEL, C1, marks that reorder or hide text or
/// are not seen) and bytes that are no UTF-8 become \xNN or \u{NNNN}; so does the front of what a
/// CI would take for a command to itself. For text that gives nothing away: ours, the driver's, the
/// hardware's, what was typed at the command line.
std::string escape(std::string_view text);

/// The bytes as hexadecimal digits.
std::string hex_text(std::string_view bytes);

/// How a log's own texts are shown: as they are, or confidential.
class Sanitizer {
 public:
  Sanitizer() = default;
  /// Confidential: equal texts give equal hashes, in every log under the same `key`; with an empty
  /// one, who guesses a text can confirm it.
  explicit Sanitizer(std::string key) : key_(std::move(key)) {}

  bool is_confidential() const { return key_.has_value(); }
  /// escape(); if confidential, "x" and a hash, unless it is a name that everyone's programs have
  /// (malloc, main, libc.so.6, cuMemAlloc_v2 …).
  std::string text(std::string_view text) const;
  /// hex_text() for what tells which GPU or file it was; if confidential, a hash.
  std::string id(std::string_view id) const;

 private:
  std::optional<std::string> key_;
};

}  // namespace gpupeak::collector
