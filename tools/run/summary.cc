#include "tools/run/summary.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "collector/analyze/kept_summary.h"
#include "collector/log/parallel.h"
#include "tools/run/compress.h"
#include "tools/shared/child.h"
#include "tools/shared/terminal.h"

namespace gpupeak::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct HowFar {
  uint64_t done, total;
};

/// Waits for the word that the log will not change any more; false: the word will not come.
bool wait_for_word(int pipe) {
  char word = 0;
  ssize_t got;
  while ((got = read(pipe, &word, sizeof word)) < 0 && errno == EINTR) {
  }
  return got == sizeof word;
}

/// Makes the summary that `report` and `report --json` will ask for. Returns whether it is kept.
bool make_summary(const std::string& path, int word, int news) {
  const collector::Options options;
  collector::KeptSummary kept(path, options);
  const collector::LogReader log(path);
  if (!kept.can_keep(log)) return false;
  const auto tell = [news](uint64_t done, uint64_t total) {
    const HowFar how_far{done, total};
    // If nobody reads and the pipe is full, this step is left out.
    [[maybe_unused]] const ssize_t written = write(news, &how_far, sizeof how_far);
  };
  const collector::Summary summary = collector::analyze(log, path, options, tell);
  if (!wait_for_word(word)) return false;
  kept.log_was_replaced();
  kept.keep(summary);
  return kept.find().has_value();
}

[[noreturn]] void be_child(const std::string& path, int word, int news) {
  begin_helper();
  be_spared_first();
  try {
    _exit(make_summary(path, word, news) ? 0 : 1);
  } catch (...) {  // the report tells what is wrong with the log
    _exit(1);
  }
}

}  // namespace

SummaryBeside::SummaryBeside(const std::string& log) {
  if (collector::usable_processors() <= kCompressionThreads + collector::kReplayThreads) return;
  int word[2], news[2];
  if (pipe2(word, O_CLOEXEC) != 0) return;
  word_ = word[1];
  if (pipe2(news, O_CLOEXEC | O_NONBLOCK) == 0) {
    news_ = news[0];
    child_ = fork();
    if (child_ == 0) {
      close(word_);
      be_child(log, word[0], news[1]);
    }
    close(news[1]);
  }
  close(word[0]);
}

SummaryBeside::~SummaryBeside() {
  for (const int pipe : {word_, news_}) {
    if (pipe >= 0) close(pipe);
  }
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, WNOHANG);  // freeing its memory takes time: do not wait for that
}

bool SummaryBeside::keep(std::chrono::duration<double> most, const volatile sig_atomic_t& stop) {
  const char done = 1;
  if (child_ <= 0 || write(word_, &done, sizeof done) != sizeof done) return false;
  const auto deadline = Clock::now() + most;
  ProgressBar bar("making the report (Ctrl-C: when it is asked for)");
  const collector::Progress show = bar.callback();
  while (stop == 0 && Clock::now() < deadline) {
    constexpr int kLookAgainMs = 100;
    pollfd wanted{news_, POLLIN, 0};
    if (poll(&wanted, 1, kLookAgainMs) <= 0) continue;
    HowFar how_far{};
    const ssize_t got = read(news_, &how_far, sizeof how_far);
    if (got == 0) {  // the child has ended
      const std::optional<int> status = wait_for_child(child_);
      child_ = -1;
      return status == 0;
    }
    if (got == sizeof how_far && show) show(how_far.done, how_far.total);
  }
  return false;
}

}  // namespace gpupeak::tools
