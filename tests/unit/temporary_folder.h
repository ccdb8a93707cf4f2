// A folder that is removed with its object, at the end of the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace gpupeak::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char path[] = "/tmp/gpupeak_test_XXXXXX";
    path_ = mkdtemp(path);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path_;
};

}  // namespace gpupeak::testing
