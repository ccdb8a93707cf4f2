#include "tools/run/compress.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>

#include "collector/log/mapped_file.h"
#include "collector/log/pack_log.h"
#include "collector/log/parallel.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "tools/run/summary.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/terminal.h"

namespace gpupeak::tools {
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
  using Clock = std::chrono::steady_clock;
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
