// Keeps results for the next time, in files below $XDG_CACHE_HOME/gpupeak (else ~/.cache). A file
// that cannot be read or written, or that belongs to another user, counts as missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpupeak::collector {

/// The folder for files of one kind, which is made if need be. Empty: there can be none.
std::string cache_folder(std::string_view kind);

/// The path of the entry for `key`. Its name is a hash, so the file itself must repeat the key.
std::string cache_entry(const std::string& folder, std::string_view key);

/// The content of an entry; nullopt: there is none of ours. Notes that it was used now.
std::optional<std::string> read_cache_file(const std::string& path);
/// Writes an entry. It gets its name only when it is whole. Failures are ignored.
void write_cache_file(const std::string& path, std::string_view bytes);

/// Removes the entries that were written or used least recently, until the rest has at most so many
/// bytes. Files without an entry's name are left alone.
void limit_cache(const std::string& folder, uint64_t most_bytes);
/// Writes an entry, and limits its folder to so many bytes.
void keep_in_cache(const std::string& path, std::string_view bytes, uint64_t most_bytes);

}  // namespace gpupeak::collector
