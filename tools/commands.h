// One function a verb: options in, exit code out. main.cc parses the options and calls them.
#pragma once

#include <string>
#include <vector>

namespace gpupeak::tools {

struct RunOptions {
  std::vector<std::string> command;
  std::string out;       ///< name or pattern of the log; empty: GPUPEAK_OUT, else the default
  std::string host;      ///< as GPUPEAK_HOST; empty: as the environment has it
  std::string children;  ///< as GPUPEAK_CHILDREN
  bool quiet = false;
};
/// Runs a program under the preload. Returns its exit code.
int run(const RunOptions& options);

struct ReportOptions {
  std::string log;
  std::string format = "text";  ///< text, short, json, csv
  std::string out;              ///< file; empty: standard output
  std::string by = "site";
  std::string color = "auto";
  size_t top = 10;
  bool strict = false;
};
int report(const ReportOptions& options);

/// One event a line on standard output.
int dump(const std::string& log);

}  // namespace gpupeak::tools
