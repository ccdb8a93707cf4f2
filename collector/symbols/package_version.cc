#include "collector/symbols/package_version.h"

#include <sys/stat.h>

#include <fstream>
#include <string_view>

namespace gpupeak::collector {
namespace {

constexpr std::string_view kAssignment = "__version__ = ";
constexpr int kMostLines = 10'000;

bool is_file(const std::string& path) {
  struct stat status {};  // a log may name a pipe, which would wait for its other end
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

std::string package_file(const std::string& module_path) {
  std::string file = folder_of(module_path) + "/__init__.py";
  for (;;) {
    std::string outer = folder_of(folder_of(file)) + "/__init__.py";
    if (outer.size() >= file.size() || !is_file(file) || !is_file(outer)) return file;
    file = std::move(outer);
  }
}

std::string package_version(const std::string& module_path) {
  const std::string path = package_file(module_path);
  if (!is_file(path)) return "";
  std::ifstream file(path);
  std::string line;
  for (int lines = 0; lines < kMostLines && std::getline(file, line); ++lines) {
    if (!line.starts_with(kAssignment)) continue;
    const std::string_view value = std::string_view(line).substr(kAssignment.size());
    if (value.empty() || (value[0] != '"' && value[0] != '\'')) return "";
    const size_t end = value.find(value[0], 1);
    return end == std::string_view::npos ? "" : std::string(value.substr(1, end - 1));
  }
  return "";
}

}  // namespace gpupeak::collector
