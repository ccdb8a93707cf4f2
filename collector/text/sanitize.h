// Makes text from a log, a file or the environment safe to show, and with --confidential
// meaningless. Everything that enters a Summary or the dump goes through here, so that no writer
// can forget it.
#pragma once

#include <string>
#include <string_view>

namespace gpupeak::collector {

/// Valid UTF-8 without control characters: those (C0, DEL, C1, the marks that reorder or hide text)
/// and bytes that are no UTF-8 become \xNN or \u{NNNN}. For text that gives nothing away: ours, the
/// driver's, the hardware's.
std::string escape(std::string_view text);

/// The same for text of the user's. Once make_confidential() was called it becomes "x" and a hash,
/// unless it is a name that everyone's programs have (malloc, main, libc.so.6, cuMemAlloc_v2 …).
std::string sanitize(std::string_view text);

/// The bytes as hexadecimal digits.
std::string hex_text(std::string_view bytes);

/// The same for what tells which GPU or file it was: a hash instead, as of sanitize().
std::string sanitize_id(std::string_view id);

/// From here on, for the whole process: call before a log is read. Equal texts give equal hashes,
/// in every log under the same `key`; without a key, who guesses a text can confirm it.
void make_confidential(std::string_view key);
bool is_confidential();

}  // namespace gpupeak::collector
