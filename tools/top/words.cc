#include "tools/top/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "collector/analyze/quality.h"
#include "collector/summary/run_text.h"

namespace gpupeak::tools {

using collector::grouped;
using collector::size_text;
using collector::TextStyle;

std::string span_text(double seconds) {
  if (seconds >= 86400) return fmt::format("{:.1f} days", seconds / 86400);
  if (seconds >= 7200) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 120) return fmt::format("{:.0f} min", seconds / 60);
  return collector::duration(static_cast<int64_t>(seconds * kNsPerSecond));
}

std::string rate_text(const std::optional<double>& per_second) {
  return per_second ? grouped(static_cast<uint64_t>(std::llround(*per_second))) : "–";
}

std::string growth_text(const std::optional<double>& growth, const TextStyle& style) {
  if (!growth) return "–";
  const auto bytes = static_cast<uint64_t>(std::llround(std::abs(*growth)));
  const char* sign = bytes == 0 ? "" : *growth < 0 ? "-" : "+";
  return sign + size_text(bytes, style);
}

std::string state_text(const TopProgram& program) {
  const FolderLog& log = program.log();
  if (log.state != collector::LogState::kEnded)
    return collector::kLogStates[static_cast<size_t>(log.state)];
  const std::string how = collector::exit_text(collector::run_end(log.head.counters));
  return how.empty() ? "ended" : how;
}

bool contains(const std::string& text, const std::string& part) {
  const auto found = std::search(
      text.begin(), text.end(), part.begin(), part.end(),
      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  return found != text.end();
}

std::optional<double> growth_of(const TopProgram& program) {
  std::optional<double> most;
  if (program.devices().empty()) most = program.growth(program.heap_curve());
  for (const int32_t device : program.devices()) {
    const auto growth = program.growth(device);
    if (growth && (!most || *growth > *most)) most = growth;
  }
  return most;
}
std::optional<double> full_of(const TopProgram& program) {
  std::optional<double> soonest;
  for (const int32_t device : program.devices()) {
    const auto seconds = program.seconds_to_full(device);
    if (seconds && (!soonest || *seconds < *soonest)) soonest = seconds;
  }
  return soonest;
}

}  // namespace gpupeak::tools
