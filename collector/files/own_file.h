// Tells whether a file is this user's own. Another user's file is not believed, joined, renamed or
// removed.
#pragma once

#include <sys/stat.h>

#include <string>

namespace gpupeak::collector {

/// Whether a file in `folder` is this user's: its owner is we, or whoever owns a new file there.
/// These differ on some file systems (NFS makes nobody of root, FAT has one owner for all).
bool is_own(const struct stat& file, const std::string& folder);

/// Whether it is a folder of ours, no link, and not writable by everybody. `path` must not end in a
/// slash.
bool is_own_folder(const std::string& path);

/// Whether the path still leads to this very file, without a link.
bool is_still_at(const std::string& path, const struct stat& file);

/// The folder of a path; "." if it has none.
std::string folder_of(const std::string& path);

/// Random characters, so many that nobody can guess a name that has them.
std::string unguessable_text();

}  // namespace gpupeak::collector
