// Writes files with names that the user chose: first under a random name beside it, which is then
// renamed. So a file is there whole or not at all. Links that another user put there are not
// followed. A file that is replaced keeps its owner and its mode.
//
//   run.json  ──write──►  .run.json.k3v9…  ──rename──►  run.json
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "collector/files/regular_file.h"

namespace gpupeak::collector {

/// The path to which a link leads, also if no file is there yet, so that the link itself stays.
/// Links in /proc lead to descriptors, which have no name, and are not followed. Throws
/// std::runtime_error for a link, pipe or socket of another user's.
std::string followed(std::string path);

/// Throws std::runtime_error that says that `path` cannot be written, and why.
[[noreturn]] void cannot_write(const std::string& path, const std::string& why);
[[noreturn]] void cannot_write(const std::string& path);  ///< the reason is errno's

/// What is at the place of a new file: whether it may be replaced, and with which owner and mode.
class Place {
 public:
  /// Throws std::runtime_error if another user's file is there and its owner cannot be kept.
  explicit Place(const std::string& target);
  /// Gives the finished file, open at `fd`, the owner and mode of the file that it replaces.
  void pass_on(int fd) const;
  bool is_free() const { return is_free_; }

 private:
  const std::string& target_;
  bool is_free_ = true;
  unsigned mode_ = 0, uid_ = 0, gid_ = 0;
};

/// Writes `target` by a stream. Throws std::runtime_error; nothing has changed then. `mode`: of a
/// new file, less the umask.
void write_fresh(const std::string& target, const std::function<void(std::ostream&)>& write,
                 unsigned mode = 0666);
/// The same for a writer that opens its file by name. `fresh` is a name that does not exist, in a
/// folder that is ours alone.
void write_fresh_by_name(const std::string& target,
                         const std::function<void(const std::string& fresh)>& write);

/// Opens a folder below `root`, which the user named, and makes what is missing of it. Below `root`
/// no link of another user's is followed, nor one that takes the folder's place later. Throws
/// std::runtime_error.
Descriptor inner_folder(const std::string& root, const std::string& inner);
/// The path of a file in a folder that is held open.
std::string path_in(const Descriptor& folder, const std::string& name);

/// Appends to the file. Throws std::runtime_error.
void append_to(const std::string& target, const std::function<void(std::ostream&)>& write);

// Keeps names for the next time, in files below $XDG_CACHE_HOME/gpupeak (else ~/.cache). A file
// that cannot be read or written, or that belongs to another user, counts as missing.

/// The path of the entry for `key`, in a folder that is made if need be; empty: there can be none.
/// The name is a hash, so the file itself must repeat the key.
std::string cache_entry(std::string_view key);

/// The content of an entry; nullopt: there is none of ours. Notes that it was used now.
std::optional<std::string> read_cache_file(const std::string& path);
/// Writes an entry. It gets its name only when it is whole. Then removes the entries that were
/// written or used least recently, until the rest has at most so many bytes. Files without an
/// entry's name are left alone. Failures are ignored.
void keep_in_cache(const std::string& path, std::string_view bytes, uint64_t most_bytes);

}  // namespace gpupeak::collector
