// One table of everything that turns a log into output. The fuzz targets and the test that damages
// every byte use it. A new verb or format gets a row; exports are added by themselves.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/rules/rule_book.h"

namespace gpupeak::testing {

struct Writer {
  std::string name;
  /// Throws LogError if the log cannot be read, UsageError if the log lacks what the writer needs.
  std::function<void(const std::string& path, const collector::Reading& reading, std::ostream& out)>
      write;
};

const std::vector<Writer>& writers();

}  // namespace gpupeak::testing
