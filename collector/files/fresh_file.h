// How every file with a name of the user's choice is written: under a random name beside it first,
// then renamed, so that it is there whole or not at all. Links that another user has put there are
// not followed. A file that is replaced keeps its owner and its mode.
//
//   run.json  ──write──►  .run.json.k3v9…  ──rename──►  run.json
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "collector/files/descriptor.h"

namespace gpupeak::collector {

/// Where a link leads, so that the link stays: also to a file that is not there yet. The links in
/// /proc lead to descriptors, which have no name to follow. Throws std::runtime_error at a link of
/// another user's, and at a pipe or socket of another user's.
std::string followed(std::string path);

/// Throws std::runtime_error: that `path` cannot be written, and why.
[[noreturn]] void cannot_write(const std::string& path, const std::string& why);
[[noreturn]] void cannot_write(const std::string& path);  ///< for errno's reason

/// What stands where a file is to be: whether it may be replaced, and as what.
class Place {
 public:
  /// Throws std::runtime_error if what is there is another user's and cannot stay so.
  explicit Place(const std::string& target);
  /// Gives the finished file, open at `fd`, the owner and mode of what it replaces.
  void pass_on(int fd) const;
  bool is_free() const { return is_free_; }

 private:
  const std::string& target_;
  bool is_free_ = true;
  unsigned mode_ = 0, uid_ = 0, gid_ = 0;
};

/// Writes `target` by a stream. Throws std::runtime_error; then nothing has changed. `mode`: of a
/// file that is not there yet, less what umask takes.
void write_fresh(const std::string& target, const std::function<void(std::ostream&)>& write,
                 unsigned mode = 0666);
/// The same by what opens a file by its name itself: `fresh`, which does not exist, in a folder
/// that is ours alone.
void write_fresh_by_name(const std::string& target,
                         const std::function<void(const std::string& fresh)>& write);

/// A folder below `root`, which the user has named: held open, and made where it is not there yet.
/// Further in than `root` no link of another user's is followed, nor one that takes the folder's
/// place later. Throws std::runtime_error.
Descriptor inner_folder(const std::string& root, const std::string& inner);
/// By which a file in a folder that is held open is written.
std::string path_in(const Descriptor& folder, const std::string& name);

/// Behind what is in the file.
void append_to(const std::string& target, const std::function<void(std::ostream&)>& write);

}  // namespace gpupeak::collector
