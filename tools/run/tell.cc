#include "tools/run/tell.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "collector/log/log_process.h"
#include "collector/summary/whole_run_text.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "tools/run/first_screen.h"
#include "tools/run/resident.h"
#include "tools/shared/command_line.h"
#include "tools/shared/process_stat.h"
#include "tools/shared/terminal.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

/// The first screen of a log. Never throws: it says what is wrong with a log, so that `run` still
/// ends with the program's exit code.
std::string screen_of(const std::string& log, ScreenAhead* ahead) {
  try {
    return first_screen(log, {}, style_for(STDERR_FILENO, {}), ahead);
  } catch (const std::exception& error) {
    say("{}: {}", collector::escape(log), error.what());
    return {};
  }
}

}  // namespace

uint64_t unseen_rss_bytes(uint64_t largest_bytes, uint64_t known_bytes,
                          const std::vector<RunLog>& logs, const collector::RunRecord& seen) {
  constexpr uint64_t kNearly = 16;  // nearly as much: at most 1/16 less
  for (const RunLog& log : logs) {
    if (!has_end(log.path)) return 0;  // it may be this process: its last peak is not in the log
    known_bytes = std::max(known_bytes, rss_peak_of(log.path));
  }
  for (const auto& process : seen.unrecorded)
    known_bytes = std::max(known_bytes, process.rss_bytes.value_or(0));
  // A process that was seen counts as known only if little of this memory is its own. If much is,
  // and the process is not among those above, it was not recorded.
  for (const auto& process : seen.resident) {
    if (bytes_of_its_own(process) < kWorthWords)
      known_bytes = std::max(known_bytes, process.rss_bytes);
  }
  const bool is_known = largest_bytes - largest_bytes / kNearly <= known_bytes;
  return is_known || largest_bytes < kWorthWords ? 0 : largest_bytes;
}

void note_last_program(const RunLog& log, const std::string& command, const std::string& name,
                       std::vector<collector::RunRecord::Unrecorded>& unrecorded) {
  constexpr size_t kLongest = 15;  // the kernel cuts names to so many bytes
  const std::string first = fs::path(command).filename().string();
  if (name.empty() || name == first.substr(0, kLongest) || has_end(log.path)) return;
  const auto known = std::find_if(unrecorded.begin(), unrecorded.end(), [&](const auto& process) {
    return process.pid == static_cast<uint32_t>(log.pid);
  });
  auto& program = known != unrecorded.end() ? *known : unrecorded.emplace_back();
  program.pid = static_cast<uint32_t>(log.pid);
  program.name = name;
  program.went_on = true;
  if (program.why.empty()) program.why = "it is static, or did not get LD_PRELOAD (env -i)";
}

void say_why_there_is_no_log(const std::string& program, const std::string& children,
                             const std::vector<collector::RunRecord::LeftRunning>& left) {
  const auto why = why_never_preloaded(program_file(program));
  say("{} left no log, so nothing was measured: {}.{}", collector::escape(program),
      why.value_or("it did not load gpupeak's library, or could not write a log"),
      children == "all" ? "" : " If it only starts the program that you mean, try --children all.");
  for (const auto& process : left) {
    const collector::WholeRun::StillRunning shown{
        process.pid, collector::escape(process.name), "", collector::escape(process.why),
        collector::resident_bytes(process.pid, process.start_time)};
    say_text(fmt::format("  {}\n", collector::still_running_text(shown, {})));
  }
}

void tell_of_logs(const std::vector<RunLog>& logs, const std::string& children,
                  ScreenAhead* ahead) {
  say_text(screen_of(logs.front().path, ahead));
  for (size_t i = 1; i <= logs.front().parts; ++i)
    say_text(fmt::format("  part: {}#{}\n", collector::escape(logs.front().path), i));
  constexpr size_t kMostNamed = 5;
  size_t beside = 0, in_folder = 0;
  for (size_t i = 1; i < logs.size(); ++i) {
    const bool is_child = logs[i].path.starts_with(children + "/");
    ++(is_child ? in_folder : beside);
    if (!is_child && beside <= kMostNamed)
      say_text(fmt::format("  also: {}\n", collector::escape(logs[i].path)));
  }
  if (beside > kMostNamed) say_text(fmt::format("  also: {} more\n", beside - kMostNamed));
  if (in_folder > 0) {
    say_text(fmt::format("  also: {} of child processes in {}\n",
                         in_folder == 1 ? "the log" : fmt::format("{} logs", in_folder),
                         collector::escape(children)));
  }
}

}  // namespace gpupeak::tools
