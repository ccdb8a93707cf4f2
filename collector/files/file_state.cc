#include "collector/files/file_state.h"

#include <utility>

namespace gpupeak::collector {
namespace {

int64_t ns(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

FileState state_of_file(std::string path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return state_of(std::move(path), status);
  FileState none;
  none.path = std::move(path);
  return none;
}

FileState state_of(std::string path, const struct stat& status) {
  return {std::move(path),    status.st_dev,
          status.st_ino,      static_cast<uint64_t>(status.st_size),
          ns(status.st_mtim), ns(status.st_ctim)};
}

}  // namespace gpupeak::collector
