#include "tools/run/names.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "collector/log/kept_names.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/keep_names.h"
#include "tools/shared/child.h"

namespace gpupeak::tools {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// For all logs of a run together. The names of a program's own code take some hundredths, of one
/// with 40 MB of debug information a second.
constexpr Clock::duration kLeastPatience = 2s, kMostPatience = 10s, kPatienceForAll = 20s;
constexpr int kPartOfRun = 10;
/// Where nobody has asked for them, a run must not take longer for it.
constexpr Clock::duration kLeastUnasked = 50ms, kMostUnasked = 2s;
constexpr int kPartUnasked = 50;

Clock::duration patience_for(NamesOf which, std::chrono::nanoseconds ran) {
  if (which == NamesOf::kAll) return kPatienceForAll;
  if (which == NamesOf::kAuto)
    return std::clamp<Clock::duration>(ran / kPartUnasked, kLeastUnasked, kMostUnasked);
  return std::clamp<Clock::duration>(ran / kPartOfRun, kLeastPatience, kMostPatience);
}
/// Of one log: some forty thousand addresses.
constexpr uint64_t kMostNameBytes = 4 << 20;

/// Whether all of them fitted.
bool keep_names_of(const std::string& path, const collector::NamesBudget& budget) {
  const collector::LogReader log(path);
  uint64_t written = 0;
  const auto write = [&](const collector::KeptNames& names) {
    if (names.modules > 0) written = collector::write_kept_names(path, names.table, written);
  };
  const collector::KeptNames names =
      collector::keep_names(log, collector::builtin_name_rules(), budget, write);
  write(names);
  return names.left_out == 0;
}

[[noreturn]] void be_child(const std::vector<RunLog>& logs, const collector::NamesBudget& budget) {
  begin_helper();
  be_spared_first();
  unsetenv("DEBUGINFOD_URLS");  // nobody waits for a server
  bool all_fitted = true;
  for (const RunLog& log : logs) {
    try {
      if (!is_running(log)) all_fitted &= keep_names_of(log.path, budget);
    } catch (const std::exception&) {  // the report tells what is wrong with the log
    }
  }
  _exit(all_fitted ? 0 : 1);
}

}  // namespace

NamesOf names_of(const std::string& name) {
  if (name == "all") return NamesOf::kAll;
  if (name == "auto") return NamesOf::kAuto;
  return name == "none" ? NamesOf::kNone : NamesOf::kOwn;
}

NameKeeper::NameKeeper(const std::vector<RunLog>& logs, NamesOf which, std::chrono::nanoseconds ran)
    : which_(which), until_(Clock::now() + patience_for(which, ran)) {
  if (which == NamesOf::kNone || logs.empty()) return;
  child_ = fork();
  if (child_ != 0) return;
  const bool all = which == NamesOf::kAll, is_asked = which != NamesOf::kAuto;
  be_child(logs, {all, is_asked, kMostNameBytes, until_ - patience_for(which, ran) / 10});
}

bool NameKeeper::wait(const volatile sig_atomic_t& stop) {
  if (child_ <= 0) return true;
  constexpr int kLookAgainMs = 50;
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, child_, 0));
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child_, &status, WNOHANG)) == 0 && stop == 0 && Clock::now() < until_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now()).count();
    pollfd wanted{descriptor, POLLIN, 0};
    poll(&wanted, 1, static_cast<int>(std::clamp<int64_t>(left, 0, kLookAgainMs)));
  }
  if (descriptor >= 0) close(descriptor);
  if (ended != 0)
    child_ = -1;
  else
    end_child();
  const bool kept_all = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return kept_all || which_ == NamesOf::kAuto;
}

NameKeeper::~NameKeeper() {
  if (child_ > 0) end_child();
}

void NameKeeper::end_child() {
  kill(child_, SIGKILL);
  wait_for_child(child_);
  child_ = -1;
}

}  // namespace gpupeak::tools
