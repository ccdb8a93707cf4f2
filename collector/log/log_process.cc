#include "collector/log/log_process.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace gpupeak::collector {
namespace {

bool is_of_this_boot(const gpupeak_file_header& header) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  std::erase(id, '-');
  constexpr uint8_t kNotKnown[sizeof header.boot_id] = {};
  if (memcmp(header.boot_id, kNotKnown, sizeof kNotKnown) == 0) return true;  // an older gpupeak's
  std::string theirs;
  for (const uint8_t byte : header.boot_id) theirs += fmt::format("{:02x}", byte);
  struct stat space {};
  return theirs == id && stat("/proc/self/ns/pid", &space) == 0 &&
         header.pid_namespace == space.st_ino;
}

bool is_here(const gpupeak_file_header& header) {
  return process_start_time("/proc/" + std::to_string(header.pid)) == header.process_start_time;
}

}  // namespace

uint64_t process_start_time(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string stat = text.str();
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  constexpr int kFieldsBefore = 19;  // between the name and the start time
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < kFieldsBefore; ++i) fields >> field;
  uint64_t start = 0;
  fields >> start;
  return start;
}

bool may_be_running(const gpupeak_file_header& header, const gpupeak_counters_page& counters) {
  if (is_of_this_boot(header)) return is_here(header);
  return counters.ended == 0;
}

LogState state_of(const gpupeak_file_header& header, const gpupeak_counters_page& counters) {
  if (counters.ended != 0 || counters.exit_kind != GPUPEAK_EXIT_UNKNOWN) return LogState::kEnded;
  if (!is_of_this_boot(header)) return LogState::kElsewhere;
  return is_here(header) ? LogState::kRunning : LogState::kKilled;
}

}  // namespace gpupeak::collector
