// Results that are kept for the next time, in files below $XDG_CACHE_HOME/gpupeak (else ~/.cache).
// A file that cannot be read or written, or that belongs to another user, counts as missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpupeak::collector {

/// The folder for files of one kind, made if need be; empty if there is none to be had.
std::string cache_folder(std::string_view kind);

/// The entry of what is known by all of `key`, which the file itself must repeat.
std::string cache_entry(const std::string& folder, std::string_view key);

std::optional<std::string> read_cache_file(const std::string& path);
/// Under its name only once it is whole.
void write_cache_file(const std::string& path, std::string_view bytes);

/// Removes the entries that were written or used least recently, until what is left of them in the
/// folder has at most so many bytes. What has not the name of an entry is left alone.
void limit_cache(const std::string& folder, uint64_t most_bytes);
/// Writes an entry, and limits its folder to so many bytes.
void keep_in_cache(const std::string& path, std::string_view bytes, uint64_t most_bytes);

}  // namespace gpupeak::collector
