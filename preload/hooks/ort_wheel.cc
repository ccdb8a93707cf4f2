#include "hooks/ort_wheel.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/elf_lookup.h"
#include "base/proc_file.h"
#include "base/text.h"
#include "hooks/ort_arena.h"

namespace gpupeak::preload {
namespace {

using Version = Text<32>;

std::string_view folder_of(std::string_view path) {
  size_t end = path.size();
  while (end > 0 && path[end - 1] != '/') --end;
  return head(path, end > 0 ? end - 1 : 0);
}

/// The package's own version, onnxruntime.__version__: a line of the package's __init__.py, which
/// Python is executing, begins with `__version__ = "1.23.2"`. Empty: there is no such line.
Version package_version(std::string_view module) {
  Path path;
  path.add(folder_of(folder_of(module))).add("/__init__.py");
  char text[4096];  // the line is right below the licence
  text[read_file(path.c_str(), text, sizeof text - 1)] = 0;
  Version version;
  const char* at = strstr(text, "\n__version__ = ");
  if (at == nullptr) return version;
  at += strlen("\n__version__ = ");
  const char quote = *at++;
  if (quote != '"' && quote != '\'') return version;
  const char* const end = strchr(at, quote);
  if (end != nullptr) version.add({at, static_cast<size_t>(end - at)});
  return version;
}

}  // namespace

bool is_ort_wheel_entry(const char* name) {
  return name != nullptr && strcmp(name, "PyInit_onnxruntime_pybind11_state") == 0;
}

void take_over_ort_wheel(const void* entry) {
  const int program_errno = errno;
  const Version version = package_version(module_path(entry));
  take_over_ort_arenas(entry, version.view().empty() ? "(unknown version)" : version.c_str());
  errno = program_errno;
}

}  // namespace gpupeak::preload
