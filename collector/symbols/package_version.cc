#include "collector/symbols/package_version.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "collector/files/regular_file.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kAssignment = "__version__ = ";
constexpr size_t kMostBytes = 64 << 10;  // it is near the beginning

bool is_file(const std::string& path) {
  struct stat status {};  // a log may name a pipe, and opening that would wait
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

std::string package_file(const std::string& module_path) {
  std::string file = parent_of(module_path) + "/__init__.py";
  for (;;) {
    std::string outer = parent_of(parent_of(file)) + "/__init__.py";
    if (outer.size() >= file.size() || !is_file(file) || !is_file(outer)) return file;
    file = std::move(outer);
  }
}

std::string package_version(const std::string& module_path) {
  const std::string path = package_file(module_path);
  if (!is_file(path)) return "";
  std::string text(kMostBytes, 0);
  const Descriptor file = open_regular(path);
  const ssize_t got = file ? read(file.get(), text.data(), kMostBytes) : 0;
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  const size_t at = text.starts_with(kAssignment) ? 0 : text.find(fmt::format("\n{}", kAssignment));
  if (at == std::string::npos) return "";
  const size_t quote = text.find(kAssignment, at) + kAssignment.size();
  if (quote >= text.size() || (text[quote] != '"' && text[quote] != '\'')) return "";
  const size_t end = text.find_first_of("\"'\n", quote + 1);
  if (end == std::string::npos || text[end] != text[quote]) return "";
  return text.substr(quote + 1, end - quote - 1);
}

}  // namespace gpupeak::collector
