#include "tools/run/torch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

/// What all processes have written, in one line each time; preload/python defines the words.
struct Told {
  bool python = false, parallel = false, compiled = false;
  std::string torch, failure;  ///< PyTorch's version; why there are no names; empty: not said
  uint64_t processes = 0;      ///< processes with PyTorch
  uint64_t ended = 0;          ///< how many of them have said what it cost
  uint64_t modules = 0;        ///< of the process with the most modules
  uint64_t calls = 0;
  int64_t time_ns = 0;
};

Told read_told(const fs::path& path) {
  Told told;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "python") {
      told.python = true;
    } else if (what == "torch") {
      words >> told.torch;
      ++told.processes;
    } else if (what == "parallel") {
      told.parallel = true;
    } else if (what == "compile") {
      told.compiled = true;
    } else if (what == "failed" && told.failure.empty()) {
      std::getline(words >> std::ws, told.failure);
    } else if (what == "cost") {
      uint64_t modules = 0, calls = 0;
      int64_t time_ns = 0;
      if (!(words >> modules >> calls >> time_ns)) continue;
      ++told.ended;
      told.modules = std::max(told.modules, modules);
      told.calls += calls;
      told.time_ns += time_ns;
    }
  }
  return told;
}

std::string seen_text(const Told& told) {
  std::string text = fmt::format("  modules of PyTorch {} by name", collector::escape(told.torch));
  if (told.processes > 1) text += fmt::format(" in {} processes", told.processes);
  if (told.ended > 0) {
    text += fmt::format(": {} {}, {} calls of hooks, which took {}", told.modules,
                        told.modules == 1 ? "module" : "modules", told.calls,
                        collector::duration(told.time_ns));
  }
  if (told.ended < told.processes)
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
  const Told told = read_told(told_);
  std::string text;
  if (!told.torch.empty()) {
    text += seen_text(told);
  } else if (told.python && told.failure.empty()) {
    text += "  --torch-modules: no modules by name, PyTorch was not imported\n";
  } else if (!told.python) {
    text +=
        "  --torch-modules: no modules by name, no Python began that reads PYTHONPATH "
        "(python3 -I, -E and -S, and frozen programs do not)\n";
  }
  if (!told.failure.empty()) {
    text += fmt::format("  --torch-modules: no modules by name from some point on: {}\n",
                        collector::escape(told.failure));
  }
  if (told.compiled)
    text += "  torch.compile is left alone: no modules by name from its first call on\n";
  if (told.parallel) text += "  DataParallel is left alone: modules within are not told apart\n";
  return text;
}

}  // namespace gpupeak::tools
