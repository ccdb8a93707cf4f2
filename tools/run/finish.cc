#include "tools/run/finish.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>

#include "collector/analyze/kept_summary.h"
#include "collector/log/kept_names.h"
#include "collector/log/mapped_file.h"
#include "collector/log/pack_log.h"
#include "collector/log/parallel.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/keep_names.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"

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

namespace {

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

namespace {

constexpr uint64_t kLargeBytes = 64 << 20;
/// Chosen by measurements (docs/performance.md): with level 9 files are a twentieth smaller, and it
/// takes three times as long.
constexpr int kLevel = 3;
struct Stopped {};

uint64_t size_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

void compress(const std::string& path, const collector::Progress& show,
              const volatile sig_atomic_t& stop) {
  const collector::MappedFile log(path);
  collector::Packing packing;
  packing.level = kLevel;
  packing.threads = static_cast<int>(std::min(collector::usable_processors(), kCompressionThreads));
  packing.in_place = true;
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (stop != 0) throw Stopped{};
    if (show) show(done, total);
  };
  write_output(path, [&](std::ostream& out) {
    collector::write_packed(std::span(log.data(), log.bytes()), "", out, progress, packing);
  });
}

}  // namespace

Compression compression(const std::string& name) {
  if (name == "always") return Compression::kAlways;
  return name == "never" ? Compression::kNever : Compression::kAuto;
}

void compress_logs(const std::vector<RunLog>& logs, Compression compression, bool quiet,
                   const volatile sig_atomic_t& stop) {
  Clock::duration took{};
  uint64_t count = 0, before = 0, after = 0;
  ProgressBar bar("compressing (Ctrl-C leaves the log as it is)");
  const collector::Progress show = quiet ? collector::Progress() : bar.callback();
  for (const RunLog& log : logs) {
    const uint64_t bytes = size_of(log.path);
    const bool wanted = compression == Compression::kAlways ||
                        (compression == Compression::kAuto && bytes >= kLargeBytes);
    if (!wanted || stop != 0 || is_running(log)) continue;
    try {
      const auto began = Clock::now();
      std::optional<SummaryBeside> summary;
      if (!quiet && &log == &logs.front()) summary.emplace(log.path);
      compress(log.path, show, stop);
      const auto of_log = Clock::now() - began;
      took += of_log;
      ++count;
      before += bytes;
      after += size_of(log.path);
      bar.clear();
      if (summary) summary->keep(2 * of_log, stop);
    } catch (const Stopped&) {
    } catch (const std::exception& error) {
      bar.clear();
      if (!quiet)
        say("{} stays as it is, not compressed: {}", collector::escape(log.path), error.what());
    }
  }
  bar.clear();
  if (quiet || count == 0) return;
  const collector::TextStyle style;
  const double seconds = std::chrono::duration<double>(took).count();
  say_text(fmt::format("  compressed{}: {} to {} ({:.0f} %) in {:.1f} s\n",
                       count == 1 ? "" : fmt::format(" {} logs", count),
                       collector::size_text(before, style), collector::size_text(after, style),
                       100.0 * static_cast<double>(after) / static_cast<double>(before), seconds));
}

}  // namespace gpupeak::tools
