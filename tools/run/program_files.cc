#include "tools/run/program_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/vfs.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "collector/log/symbol_table.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

/// The mount by which a file was opened, as the kernel counts them.
std::string mount_of(const collector::Descriptor& file) {
  return collector::fields_of(fmt::format("/proc/self/fdinfo/{}", file.get()))["mnt_id"];
}

/// Whether the file can be open without harm. Nobody wants to unmount what it was opened by: the
/// root, /tmp, our own folder; a process that is not in a chroot has its container's. And it is not
/// on a file system (NFS, FUSE, SMB) that gives a removed file that is open another name in its
/// folder, so that this cannot be removed.
bool may_stay_open(const collector::Descriptor& file, pid_t process, const std::string& root) {
  constexpr uint32_t kRenaming[] = {0x6969, 0x65735546, 0xFF534D42, 0xFE534D42};
  struct statfs system {};
  if (fstatfs(file.get(), &system) != 0 ||
      std::ranges::find(kRenaming, static_cast<uint32_t>(system.f_type)) != std::end(kRenaming))
    return false;
  const std::string mount = mount_of(file), base = root == "/" ? of_process(process, "root") : "";
  const std::string folders[] = {base + "/", base + "/tmp", "."};
  return std::ranges::any_of(folders, [&mount](const std::string& folder) {
    const collector::Descriptor at(open(folder.c_str(), O_PATH | O_CLOEXEC));
    return at && mount_of(at) == mount;
  });
}

}  // namespace

bool ProgramFiles::has_room_for(const struct stat& status) const {
  constexpr size_t kMost = 64;
  constexpr off_t kMostBytes = 1 << 30;
  off_t bytes = status.st_size;
  for (const File& one : files_) bytes += one.status.st_size;
  return files_.size() < kMost && bytes <= kMostBytes;
}

void ProgramFiles::note(pid_t process, const std::string& link, const std::string& path,
                        ino_t inode) {
  File one;
  one.path = collector::without_deleted(path);
  const std::string root = link_of(process, "root");  // the log has the path below it
  if (root.size() > 1 && one.path.starts_with(root + "/")) one.path.erase(0, root.size());
  const std::string file = of_process(process, link);
  const auto is_it = [&one](const File& known) {
    return known.path == one.path && known.status.st_dev == one.status.st_dev &&
           known.status.st_ino == one.status.st_ino;
  };
  if (stat(file.c_str(), &one.status) != 0 || std::ranges::any_of(files_, is_it)) return;
  one.file = collector::open_regular(file, O_RDONLY, one.status);
  if (!one.file || (inode != 0 && inode != one.status.st_ino)) return;
  if (!path.starts_with("/memfd:") && !may_stay_open(one.file, process, root)) return;
  if (!has_room_for(one.status))
    std::erase_if(files_, [](const File& at) { return at.is_there(); });
  if (has_room_for(one.status)) files_.push_back(std::move(one));
}

void ProgramFiles::note_mapped(pid_t process, const std::string& maps) {
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string range, rights, offset, device;
    ino_t inode = 0;
    fields >> range >> rights >> offset >> device >> inode;
    const size_t slash = line.find('/');
    const std::string path = slash < line.size() ? line.substr(slash) : "";
    if (inode == 0 || !rights.ends_with("xp") || collector::is_of_system(path)) continue;
    // The second link needs a privilege, and the first no longer leads to a file that was removed.
    const bool is_gone = path.ends_with(collector::kDeleted);
    note(process, is_gone ? "map_files/" + range : "root" + path, path, inode);
  }
}

collector::SymbolSearch ProgramFiles::gone() const {
  collector::SymbolSearch search;
  search.keep = false;
  for (const File& one : files_) {
    struct stat now {};
    const bool is_same = fstat(one.file.get(), &now) == 0 && now.st_size == one.status.st_size &&
                         now.st_mtim.tv_sec == one.status.st_mtim.tv_sec &&
                         now.st_mtim.tv_nsec == one.status.st_mtim.tv_nsec;
    if (is_same && one.is_there()) continue;
    std::vector<std::string>& files = search.opened[one.path];
    if (is_same) files.push_back(fmt::format("/proc/self/fd/{}", one.file.get()));
  }
  return search;
}

}  // namespace gpupeak::tools
