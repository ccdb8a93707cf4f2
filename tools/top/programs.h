// The programs that `top` shows, as they are at each look.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collector/text/sanitize.h"
#include "tools/shared/log_folder.h"
#include "tools/top/program.h"

namespace gpupeak::tools {

/// The programs of all logs below a folder, or of one log.
class TopPrograms {
 public:
  TopPrograms(const std::string& place, const collector::Sanitizer& sanitizer);

  void look();
  std::vector<TopProgram>& all() { return all_; }
  /// Also counts programs that are not shown, since there are too many.
  size_t in_all() const { return in_all_; }
  /// The program with this log; nullptr: there is none.
  TopProgram* find(const std::string& path);
  bool any_is_live() const;

 private:
  LogFolder folder_;
  const collector::Sanitizer& sanitizer_;
  std::vector<TopProgram> all_;
  size_t in_all_ = 0;
};

}  // namespace gpupeak::tools
