#include "tools/run/torch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

/// What all processes have written: by the first word of a line, the rest of each.
/// preload/python defines the words.
using Told = std::map<std::string, std::vector<std::string>>;

Told read_told(const fs::path& path) {
  Told told;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what, rest;
    words >> what;
    std::getline(words >> std::ws, rest);
    told[what].push_back(rest);
  }
  return told;
}

std::string seen_text(Told& told) {
  const size_t processes = told["torch"].size();
  std::string text =
      fmt::format("  modules of PyTorch {} by name", collector::escape(told["torch"].back()));
  if (processes > 1) text += fmt::format(" in {} processes", processes);
  uint64_t ended = 0, most_modules = 0, all_calls = 0;
  int64_t all_ns = 0;
  for (const std::string& cost : told["cost"]) {
    uint64_t modules = 0, calls = 0;
    int64_t time_ns = 0;
    if (!(std::istringstream(cost) >> modules >> calls >> time_ns)) continue;
    ++ended;
    most_modules = std::max(most_modules, modules);
    all_calls += calls;
    all_ns += time_ns;
  }
  if (ended > 0) {
    text += fmt::format(": {} {}, {} calls of hooks, which took {}", most_modules,
                        most_modules == 1 ? "module" : "modules", all_calls,
                        collector::duration(all_ns));
  }
  if (ended < processes)
    text += "; what hooks took is not known of a process that did not end by itself";
  return text + "\n";
}

}  // namespace

TorchModules::TorchModules(const fs::path& library) : folder_(library.parent_path() / "python") {
  std::error_code error;
  if (!fs::exists(folder_ / "sitecustomize.py", error)) {
    throw std::runtime_error(
        fmt::format("--torch-modules: {} is not there",
                    collector::escape((folder_ / "sitecustomize.py").string())));
  }
  std::string name = (fs::temp_directory_path() / "gpupeak-torch-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0) {
    throw std::runtime_error(fmt::format("--torch-modules: cannot make {}: {}",
                                         collector::escape(name), strerror(errno)));
  }
  close(file);
  told_ = name;
}

TorchModules::~TorchModules() {
  std::error_code error;
  fs::remove(told_, error);
}

void TorchModules::set_environment() const {
  const char* others = getenv("PYTHONPATH");
  std::string path = folder_.string();
  if (others != nullptr && *others != 0) path += std::string(":") + others;
  setenv("PYTHONPATH", path.c_str(), 1);
  setenv("GPUPEAK_TORCH_MODULES", told_.c_str(), 1);
}

std::string TorchModules::text() const {
  Told told = read_told(told_);
  const std::string failure = told["failed"].empty() ? "" : told["failed"].front();
  std::string text;
  if (!told["torch"].empty()) {
    text += seen_text(told);
  } else if (told["python"].empty()) {
    text +=
        "  --torch-modules: no modules by name, no Python began that reads PYTHONPATH "
        "(python3 -I, -E and -S, and frozen programs do not)\n";
  } else if (failure.empty()) {
    text += "  --torch-modules: no modules by name, PyTorch was not imported\n";
  }
  if (!failure.empty()) {
    text += fmt::format("  --torch-modules: no modules by name from some point on: {}\n",
                        collector::escape(failure));
  }
  if (!told["compile"].empty())
    text += "  torch.compile is left alone: no modules by name from its first call on\n";
  if (!told["parallel"].empty())
    text += "  DataParallel is left alone: modules within are not told apart\n";
  return text;
}

}  // namespace gpupeak::tools
