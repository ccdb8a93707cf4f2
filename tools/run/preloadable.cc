#include "tools/run/preloadable.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <vector>

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

bool can_be_preloaded(const fs::path& path) {
  return path.string().find_first_of(" :") == std::string::npos;
}

/// Whether `folder` is ours and nobody else can change it. Makes the folder if it is not there.
bool is_own_folder(const fs::path& folder) {
  struct stat status {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The folders for links, best first: in the user's cache, else among temporary files.
std::vector<fs::path> places() {
  std::vector<fs::path> all;
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  if (cache != nullptr && cache[0] == '/')
    all.push_back(fs::path(cache) / "gpupeak");
  else if (home != nullptr && home[0] == '/')
    all.push_back(fs::path(home) / ".cache" / "gpupeak");
  all.push_back(fmt::format("/tmp/gpupeak-{}", geteuid()));
  all.push_back(fmt::format("/dev/shm/gpupeak-{}", geteuid()));
  return all;
}

bool leads_to(const fs::path& link, const fs::path& target) {
  std::error_code error;
  return fs::read_symlink(link, error) == target;
}

}  // namespace

fs::path preloadable_name(const fs::path& library) {
  if (can_be_preloaded(library)) return library;
  const fs::path target = library.parent_path();
  std::error_code error;
  for (const fs::path& place : places()) {
    if (!can_be_preloaded(place)) continue;
    fs::create_directories(place.parent_path(), error);
    if (!is_own_folder(place)) continue;
    const fs::path link =
        place / fmt::format("lib-{:016x}", std::hash<std::string>{}(target.string()));
    if (leads_to(link, target)) return link / library.filename();
    const fs::path fresh = place / fmt::format("lib-{}.new", getpid());
    fs::create_directory_symlink(target, fresh, error);
    fs::rename(fresh, link, error);
    if (leads_to(link, target)) return link / library.filename();
  }
  throw std::runtime_error(
      fmt::format("{} has a space or a colon in its path, which LD_PRELOAD cannot hold, and no "
                  "link to it can be made in ~/.cache/gpupeak or /tmp",
                  library.string()));
}

}  // namespace gpupeak::tools
