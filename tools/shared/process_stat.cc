#include "tools/shared/process_stat.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace gpupeak::tools {

std::optional<ProcessStat> stat_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t begin = text.find('('), end = text.rfind(')');  // a name may have brackets
  if (begin == std::string::npos || end == std::string::npos) return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(begin + 1, end - begin - 1);
  std::istringstream fields(text.substr(end + 1));
  fields >> stat.state >> stat.parent;
  std::string skipped;
  constexpr int kFirst = 5, kFaultsOfChildren = 11, kThreads = 20, kStart = 22, kRss = 24,
                kArguments = 48;
  for (int field = kFirst; field <= kArguments; ++field) {
    uint64_t* const wanted = field == kFaultsOfChildren ? &stat.faults_of_children
                             : field == kThreads        ? &stat.threads
                             : field == kStart          ? &stat.start_time
                             : field == kRss            ? &stat.rss_pages
                             : field == kArguments      ? &stat.arguments
                                                        : nullptr;
    wanted != nullptr ? fields >> *wanted : fields >> skipped;
  }
  return fields ? std::optional(stat) : std::nullopt;
}

}  // namespace gpupeak::tools
