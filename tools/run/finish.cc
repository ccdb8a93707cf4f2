#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>

#include "collector/files/regular_file.h"
#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/log/parallel.h"
#include "collector/log/symbol_table.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/keep_names.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "tools/run/logs.h"
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

Clock::duration patience_for(const std::string& which, std::chrono::nanoseconds ran) {
  if (which == "all") return kPatienceForAll;
  if (which == "auto")
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

int keep_names(const std::vector<RunLog>& logs, const collector::NamesBudget& budget) {
  be_spared_first();
  unsetenv("DEBUGINFOD_URLS");  // nobody waits for a server
  bool all_fitted = true;
  for (const RunLog& log : logs) {
    try {
      if (!is_running(log)) all_fitted &= keep_names_of(log.path, budget);
    } catch (const std::exception&) {  // the report tells what is wrong with the log
    }
  }
  return all_fitted ? 0 : 1;
}

}  // namespace

NameKeeper::NameKeeper(const std::vector<RunLog>& logs, const std::string& which,
                       std::chrono::nanoseconds ran)
    : is_asked_(which != "auto"), until_(Clock::now() + patience_for(which, ran)) {
  if (which == "none" || logs.empty()) return;
  const auto last = until_ - patience_for(which, ran) / 10;
  helper_ = Helper([&](int, int) {
    return keep_names(logs, {which == "all", is_asked_, kMostNameBytes, last});
  });
}

bool NameKeeper::wait(const volatile sig_atomic_t& stop) {
  if (!helper_.is_there()) return true;
  const std::optional<int> status = helper_.wait(
      until_, [](std::string_view) {}, stop);
  helper_.end();
  return status == 0 || !is_asked_;
}

namespace {

constexpr uint64_t kLargeBytes = 64 << 20;
/// Chosen by measurements (docs/performance.md): with level 9 files are a twentieth smaller, and it
/// takes three times as long.
constexpr int kLevel = 3;
struct Stopped {};

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

void compress_logs(const std::vector<RunLog>& logs, const std::string& when, bool quiet,
                   const volatile sig_atomic_t& stop) {
  Clock::duration took{};
  uint64_t count = 0, before = 0, after = 0;
  ProgressBar bar("compressing (Ctrl-C leaves the log as it is)");
  const collector::Progress show = quiet ? collector::Progress() : bar.callback();
  for (const RunLog& log : logs) {
    const uint64_t bytes = collector::state_of_file(log.path).bytes;
    const bool wanted = when == "always" || (when == "auto" && bytes >= kLargeBytes);
    if (!wanted || stop != 0 || is_running(log)) continue;
    try {
      const auto began = Clock::now();
      compress(log.path, show, stop);
      took += Clock::now() - began;
      ++count;
      before += bytes;
      after += collector::state_of_file(log.path).bytes;
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
