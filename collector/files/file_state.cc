#include "collector/files/file_state.h"

#include <filesystem>
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

FileState state_of_command() {
  std::error_code error;
  return state_of_file(std::filesystem::canonical("/proc/self/exe", error).string());
}

void pack(const FileState& state, BytePacker& out) {
  out.text(state.path);
  for (const uint64_t value : {state.device, state.inode, state.bytes}) out.number(value);
  out.number(state.modified_ns);
  out.number(state.changed_ns);
}

FileState unpack_state(ByteUnpacker& in) {
  FileState state;
  state.path = in.text();
  for (uint64_t* value : {&state.device, &state.inode, &state.bytes})
    *value = in.number<uint64_t>();
  state.modified_ns = in.number<int64_t>();
  state.changed_ns = in.number<int64_t>();
  return state;
}

}  // namespace gpupeak::collector
