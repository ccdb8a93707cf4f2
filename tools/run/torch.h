// `gpupeak run --torch-modules`: has the run's Python processes load preload/python/, and tells
// what came of it.
#pragma once

#include <filesystem>
#include <string>

namespace gpupeak::tools {

/// A file into which the Python processes of a run write what they saw. It is removed with this
/// object.
class TorchModules {
 public:
  /// `library`: as LD_PRELOAD names it. Throws std::runtime_error if the Python files are not
  /// beside the library, or if no file can be made.
  explicit TorchModules(const std::filesystem::path& library);
  ~TorchModules();
  TorchModules(const TorchModules&) = delete;
  TorchModules& operator=(const TorchModules&) = delete;

  /// To be called in the child, before it becomes the program.
  void set_environment() const;
  /// Lines for the first screen, after the program's end: what was seen and what it took, or why
  /// modules have no names.
  std::string text() const;

 private:
  std::filesystem::path folder_, told_;
};

}  // namespace gpupeak::tools
