// Everything that turns a log into output, in one table: the fuzz targets and the test that damages
// every byte go through it. A new verb or format gets a row; exports come by themselves.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/rules/reading.h"

namespace gpupeak::testing {

struct Writer {
  std::string name;
  /// Throws LogError for what cannot be read, UsageError for what the log has nothing of.
  std::function<void(const std::string& path, const collector::Reading& reading, std::ostream& out)>
      write;
};

const std::vector<Writer>& writers();

}  // namespace gpupeak::testing
