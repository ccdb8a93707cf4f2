// Files of a run's programs that may be gone by its end. Used by `run` while they live.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/symbols/debug_files.h"

namespace gpupeak::tools {

/// Keeps the files of programs open, and those of libraries that they begin with, so that their
/// names can be read when nothing leads to a file any more: a memfd has no path, others are removed
/// or replaced while they run, or lie in a container. Of those that are still where they were
/// nothing is read. A file that would keep somebody from unmounting a file system, or from removing
/// a folder, is not kept open.
/// At most 64 files, of a gigabyte in all.
class ProgramFiles {
 public:
  /// The file to which this link in the process's folder leads. `path`: as the kernel tells it.
  /// `inode`: it is none but this; 0: any.
  void note(pid_t process, const std::string& link, const std::string& path, ino_t inode = 0);
  /// The code that a process has mapped, but for what packages own. `maps`: the kernel's list.
  void note_mapped(pid_t process, const std::string& maps);
  /// Those that are not where they were. They are open as long as this lives.
  collector::SymbolSearch gone() const;

 private:
  struct File {
    std::string path;  ///< as the program sees it
    collector::Descriptor file;
    struct stat status {};
    bool is_there() const { return collector::is_still_at(path, status); }
  };
  bool has_room_for(const struct stat& status) const;

  std::vector<File> files_;
};

}  // namespace gpupeak::tools
