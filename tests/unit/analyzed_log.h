// What tests of reports do with a log and with what is written of it.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "log_builder.h"

namespace gpupeak::testing {

inline collector::Summary analyze_log(LogBuilder& log, const collector::Options& options = {}) {
  const TemporaryFile file;
  return collector::analyze(log.save(file.path()), options);
}

/// What the function writes into a stream.
template <class Writer>
std::string text_of(Writer&& writer) {
  std::ostringstream out;
  writer(out);
  return out.str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace gpupeak::testing
