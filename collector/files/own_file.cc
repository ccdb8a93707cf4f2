#include "collector/files/own_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>

#include "collector/files/descriptor.h"

namespace gpupeak::collector {
namespace {

constexpr mode_t kPrivate = S_IRUSR | S_IWUSR;

/// The owner of a new file in the folder; -1: none can be made there.
int64_t owner_of_new_file(const std::string& folder) {
  const std::string path = folder + "/.gpupeak." + unguessable_text();
  const Descriptor probe(
      open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPrivate));
  struct stat own {};
  if (!probe) return -1;
  unlink(path.c_str());
  return fstat(probe.get(), &own) == 0 ? static_cast<int64_t>(own.st_uid) : -1;
}

}  // namespace

bool is_own(const struct stat& file, const std::string& folder) {
  return file.st_uid == geteuid() || owner_of_new_file(folder) == static_cast<int64_t>(file.st_uid);
}

bool is_own_folder(const std::string& path) {
  struct stat there {};
  return lstat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode) &&
         (there.st_mode & S_IWOTH) == 0 && is_own(there, folder_of(path));
}

bool is_still_at(const std::string& path, const struct stat& file) {
  struct stat now {};
  return lstat(path.c_str(), &now) == 0 && now.st_dev == file.st_dev && now.st_ino == file.st_ino;
}

std::string folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string unguessable_text() {
  static constexpr char kDigits[] = "abcdefghijklmnopqrstuvwxyz012345";
  constexpr size_t kCharacters = 20;  // five bits each
  std::string text(kCharacters, '\0');
  // So few bytes come at once, as soon as the machine has random ones.
  while (getrandom(text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
  }
  for (char& byte : text) byte = kDigits[byte & 31];
  return text;
}

}  // namespace gpupeak::collector
