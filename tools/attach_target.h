// The program that `attach` is to record: whether that can be done without harm, and where its
// libraries and their functions lie.
#pragma once

#include <elfutils/libdwfl.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace gpupeak::tools {

/// Throws UsageError if nothing can be done in the process; it says why. Changes nothing there.
void require_attachable(pid_t pid);

/// Its threads, the first one first.
std::vector<pid_t> threads_of(pid_t pid);
/// Bytes that it has resident; 0: not known.
uint64_t resident_bytes_of(pid_t pid);
/// The path of the loaded library with this file name; empty: none is loaded.
std::string loaded_library(pid_t pid, const std::string& file_name);

/// Its modules and their symbols, as they were when this was made.
class TargetModules {
 public:
  explicit TargetModules(pid_t pid);
  /// The address of a function that a module exports whose file name begins so; 0: there is none.
  uint64_t function(const std::string& module, const std::string& name) const;
  Dwfl* get() const { return dwfl_.get(); }

 private:
  struct End {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };
  std::unique_ptr<Dwfl, End> dwfl_;
};

}  // namespace gpupeak::tools
