// How the process that `run` forks becomes the program that is to be recorded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gpupeak::tools {

struct RunOptions {
  std::vector<std::string> command;
  std::string out;       ///< name or pattern of the log; empty: GPUPEAK_OUT, else the default
  std::string log_mode;  ///< as GPUPEAK_LOG_MODE; empty: as the environment has it
  std::string log_max;   ///< as GPUPEAK_LOG_MAX; empty: as the environment has it
  std::string host;      ///< as GPUPEAK_HOST; empty: as the environment has it
  std::string children;  ///< as GPUPEAK_CHILDREN
  std::string python;    ///< as GPUPEAK_PYTHON
  std::string compress = "auto";              ///< run_compress.h
  std::string names = "auto";                 ///< run_names.h
  std::vector<std::string> phases_on_output;  ///< as output_phases.h; empty: output is left alone
  std::string limit, gpu;                     ///< as log_process.h
  std::string arena_rules;     ///< a file with [[pool]]; empty: as GPUPEAK_POOL_RULES
  bool last_use = false;       ///< record when device memory was last used
  bool ort_nodes = false;      ///< ONNX Runtime's sessions write a profile
  bool torch_modules = false;  ///< run_torch.h
  bool dormant = false;        ///< counters alone, until `gpupeak start`
  bool audit = false;          ///< reach clients that bypass a preloaded library
  bool quiet = false;
};

/// Becomes the program. If that fails, writes errno to the descriptor `failure`.
[[noreturn]] void become(const std::vector<std::string>& command, int failure);
/// In the child: becomes the program, to be recorded.
[[noreturn]] void exec_program(const RunOptions& options, const std::filesystem::path& library,
                               const std::string& pattern, const std::string& children, uint64_t id,
                               int failure);

}  // namespace gpupeak::tools
