// Folded stacks: one line for each stack, root first, its bytes at the end.
#include <algorithm>
#include <map>

#include "collector/export/export.h"
#include "collector/summary/site_title.h"
#include "collector/text/error.h"
#include "collector/timeline/moment.h"

namespace gpupeak::collector {
namespace {

/// The text is limited: each line has the names of all its calls, and all lines are kept to be
/// sorted.
constexpr uint64_t kAlwaysAllowedText = 256 << 20, kMostTextRatio = 64;

}  // namespace

void export_folded(Profile& profile, const ExportOptions& options, std::ostream& out) {
  std::map<std::string, uint64_t> lines;
  uint64_t text_left = kAlwaysAllowedText + kMostTextRatio * profile.log().given_bytes();
  const Held held = held_at(profile, profile.scope(options.scope), options.at, options.progress);
  for (const Contribution& part : held.takers) {
    std::vector<Call> calls =
        profile.calls_to_write(profile.replay().sites().info(part.group).stack);
    std::string line;
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      std::string name = frame_name(*call->frame);
      std::replace(name.begin(), name.end(), ';', ':');  // ';' stands between frames
      line += (line.empty() ? "" : ";") + name;
    }
    if (line.size() > text_left) profile.refuse_stacks();
    text_left -= line.size();
    lines[line.empty() ? std::string(kNoStack) : line] += part.bytes;
  }
  for (const auto& [stack, bytes] : lines) out << stack << ' ' << bytes << '\n';
}

}  // namespace gpupeak::collector
