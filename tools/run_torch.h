// `gpupeak run --torch-modules`: puts preload/python/ into the Pythons that the program starts, and
// tells what came of it.
#pragma once

#include <filesystem>
#include <string>

namespace gpupeak::tools {

/// What the Pythons of a run say of themselves, in a file that is gone with this object.
class TorchModules {
 public:
  /// `library`: as LD_PRELOAD names it. Throws std::runtime_error where the Python files are not
  /// beside it, or no file can be made.
  explicit TorchModules(const std::filesystem::path& library);
  ~TorchModules();
  TorchModules(const TorchModules&) = delete;
  TorchModules& operator=(const TorchModules&) = delete;

  /// In the child, before it becomes the program.
  void set_environment() const;
  /// Lines for the first screen, after the program's end: what was seen and what it took, or why
  /// modules have no names.
  std::string text() const;

 private:
  std::filesystem::path folder_, told_;
};

}  // namespace gpupeak::tools
