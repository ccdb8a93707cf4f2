// Reads the names that the first screen will need, while the program still runs. With libraries of
// hundreds of megabytes that takes longer than everything else after the program's end.
//
//   program   ████████████████████████████▏ ends
//   run       ···························▕ tells the log ▕ screen
//   ahead       ▒▒ look   ▒ look            ▒ names are known
//
// It works in a process of its own, since damaged symbols may end it. A thread there makes the
// looks; it gets a processor only if nothing else wants one. There is none if no processors are to
// spare.

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "collector/log/log_head.h"
#include "collector/log/parallel.h"
#include "collector/symbols/module_symbols.h"
#include "collector/text/work.h"
#include "tools/run/first_screen.h"
#include "tools/shared/child.h"

namespace gpupeak::tools {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// How often the peaks are looked at: less and less often while they stay.
constexpr Clock::duration kFirstWait = 100ms, kLongestWait = 2000ms;
/// A look for each new peak, each followed by a rest of twice its time; none after one that took so
/// long.
constexpr Clock::duration kLongestLook = 2000ms;
constexpr int kMostLooks = 8;
/// How long a look may go on when the program has ended: what it reads is needed.
constexpr Clock::duration kUntilLookEnds = 500ms;

/// What the GPUs' peaks add up to so far; 0: no GPU was used.
uint64_t device_peaks(const std::string& log) {
  uint64_t sum = 0;
  try {
    const gpupeak_counters_page page = collector::read_head(log).counters;
    for (uint32_t i = 0; i < page.device_count && i < GPUPEAK_LOG_MAX_DEVICES; ++i)
      sum += page.device[i].total.peak;
  } catch (const std::exception&) {  // its first page is being written
  }
  return sum;
}

struct ReadStopped {};  // ends the thread

/// Makes screens that nobody sees, so that the names in them are known.
class Looks {
 public:
  Looks(const std::function<std::string()>& find, const collector::Reading& reading,
        const collector::TextStyle& style)
      : find_(find),
        reading_(reading),
        style_(style),
        done_(std::async(std::launch::async, [this] { look_while_it_runs(); })) {}

  /// False: it does not end, since others have all processors.
  bool end() {
    stop_.request_stop();
    return done_.wait_for(kUntilLookEnds) == std::future_status::ready;
  }

 private:
  void look_while_it_runs() {
    const sched_param none{};
    sched_setscheduler(0, SCHED_IDLE, &none);  // of this thread
    uint64_t peak = 0;
    Clock::duration wait = kFirstWait;
    for (int looks = 0; looks < kMostLooks && rest(wait);) {
      wait = std::min(wait * 3 / 2, kLongestWait);
      const std::string log = find_();
      const uint64_t now = log.empty() ? 0 : device_peaks(log);
      if (now == peak) continue;
      peak = now;
      wait = kFirstWait;
      ++looks;
      const auto began = Clock::now();
      look(log);
      const auto took = Clock::now() - began;
      if (took > kLongestLook || !rest(2 * took)) return;
    }
  }
  void look(const std::string& log) const {
    try {
      screen_lines(log, screen_options(reading_), style_, [this](uint64_t, uint64_t) {
        if (stop_.stop_requested()) throw ReadStopped();
      });
    } catch (const std::exception&) {  // of a log that is being written; the last one tells
    }
  }

  /// False: it is to end.
  bool rest(Clock::duration time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop_.get_token(), time, [] { return false; });
    return !stop_.stop_requested();
  }

  const std::function<std::string()>& find_;
  const collector::Reading& reading_;
  const collector::TextStyle& style_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::future<void> done_;
};

/// What the program's output and others wait for the end of is not kept open here.
void close_all_but(int kept, int kept_too) {
  const auto [first, second] = std::minmax(kept, kept_too);
  unsigned from = STDERR_FILENO + 1;
  for (const unsigned next : {static_cast<unsigned>(first), static_cast<unsigned>(second), ~0U}) {
    if (from < next) close_range(from, next - 1, 0);
    from = next + 1;
  }
}

}  // namespace

Helper read_names_ahead(const std::function<std::string()>& find,
                        const collector::TextStyle& style) {
  constexpr size_t kProgramAndDriver = 3;
  if (collector::usable_processors() <= kProgramAndDriver) return {};
  const auto work = [&](int log_name, int lines) -> int {
    close_all_but(log_name, lines);
    be_spared_first();
    collector::Reading reading;
    reading.search.cache = std::make_shared<collector::ModuleCache>();
    Looks looks(find, reading, style);
    const std::string log = text_from(log_name);
    set_end_signals(SIG_DFL);
    if (log.empty() || !looks.end()) _exit(1);
    collector::forget_work();
    // Not to be left: that would wait for the thread.
    _exit(write_screen(lines, log, reading, style));
  };
  return Helper(work, SIG_IGN);  // a terminal's signals are the program's, until it has ended
}

}  // namespace gpupeak::tools
