// The test program itself, to be used as a module of a log whose functions have names.
#pragma once

#include <cstdint>
#include <string>

namespace gpupeak::testing {

struct ThisProgram {
  std::string path;
  uint64_t bias = 0;
  uint64_t begin = 0, end = 0;
};
ThisProgram this_program();

}  // namespace gpupeak::testing
