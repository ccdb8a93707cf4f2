#include "run_summary.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "collector/analyze/kept_summary.h"
#include "collector/log/parallel.h"
#include "run_compress.h"

namespace gpupeak::tools {
namespace {

/// Until somebody says that the log is what it stays; false: nobody will.
bool wait_for_word(int pipe) {
  char word = 0;
  ssize_t got;
  while ((got = read(pipe, &word, sizeof word)) < 0 && errno == EINTR) {
  }
  return got == sizeof word;
}

/// As `report` and `report --json` will ask for it.
void make_summary(const std::string& path, int word) {
  const collector::Options options;
  collector::KeptSummary kept(path, options);
  const collector::LogReader log(path);
  if (!kept.can_keep(log)) return;
  const collector::Summary summary = collector::analyze(log, path, options);
  if (!wait_for_word(word)) return;
  kept.log_was_replaced();
  kept.keep(summary);
}

[[noreturn]] void be_child(const std::string& path, int word) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // however `run` ends: nobody waits for this any more
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_DFL);
  // Where memory runs out, this is what can be spared.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  try {
    make_summary(path, word);
  } catch (...) {  // the report tells what is wrong with the log
  }
  _exit(0);
}

}  // namespace

SummaryBeside::SummaryBeside(const std::string& log) {
  if (collector::usable_processors() <= kCompressionThreads + collector::kReplayThreads) return;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  child_ = fork();
  if (child_ == 0) {
    close(ends[1]);
    be_child(log, ends[0]);
  }
  close(ends[0]);
  word_ = ends[1];
}

SummaryBeside::~SummaryBeside() {
  if (word_ >= 0) close(word_);
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, WNOHANG);  // to free its memory takes time, too: not ours
}

void SummaryBeside::keep(std::chrono::duration<double> patience) {
  if (child_ <= 0) return;
  const char word = 1;
  if (write(word_, &word, sizeof word) != sizeof word)
    return;  // it has ended, with nothing to keep
  // The other end is closed when the child ends.
  pollfd ended{word_, 0, 0};
  const auto most = std::chrono::ceil<std::chrono::milliseconds>(patience);
  if (poll(&ended, 1, static_cast<int>(most.count())) <= 0) return;
  waitpid(child_, nullptr, 0);
  child_ = -1;
}

}  // namespace gpupeak::tools
