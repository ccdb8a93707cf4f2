// Whether a file is this user's own. What belongs to another user is not believed, joined, renamed
// or removed.
#pragma once

#include <sys/stat.h>

#include <string>

namespace gpupeak::collector {

/// Whether a file of `folder` is this user's: of whom we would make one there, who is not
/// everywhere the one that we run as (NFS makes nobody of root, FAT has one owner for all).
bool is_own(const struct stat& file, const std::string& folder);

/// A folder of ours, no link, into which not everybody may write. `path` must not end in a slash.
bool is_own_folder(const std::string& path);

/// Whether the path still leads to this very file, by no link.
bool is_still_at(const std::string& path, const struct stat& file);

/// "." where a path has none.
std::string folder_of(const std::string& path);

/// So many random characters that nobody guesses the name that they are part of.
std::string unguessable_text();

}  // namespace gpupeak::collector
