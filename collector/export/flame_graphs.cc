// Folded stacks: one line for each stack, root first, its bytes at the end.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "collector/export/export.h"
#include "collector/summary/site_title.h"
#include "collector/text/text_format.h"
#include "collector/timeline/moment.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {
namespace {

/// The text is limited: each line has the names of all its calls, and all lines are kept to be
/// sorted.
constexpr uint64_t kAlwaysAllowedText = 256 << 20, kMostTextRatio = 64;

class Speedscope {
 public:
  explicit Speedscope(Profile& profile) : profile_(profile) {}

  Json profile(std::string name, const std::vector<Contribution>& parts) {
    std::map<Stack, uint64_t> by_stack;  // sums over phases and threads
    uint64_t sum = 0;
    for (const Contribution& part : parts) {
      const uint32_t stack = profile_.replay().sites().info(part.group).stack;
      by_stack[{stack, stack == 0 ? title_without_stack(profile_.replay(), part.group) : ""}] +=
          part.bytes;
      sum += part.bytes;
    }
    std::vector<std::pair<Stack, uint64_t>> stacks(by_stack.begin(), by_stack.end());
    std::ranges::stable_sort(stacks, std::ranges::greater(), &std::pair<Stack, uint64_t>::second);
    const auto small = std::ranges::find_if(
        stacks, [&](const auto& stack) { return stack.second < sum / kLeastShare; });
    Json samples = Json::array();
    Json weights = Json::array();
    for (auto stack = stacks.begin(); stack != small; ++stack) {
      samples.push_back(sample(stack->first));
      weights.push_back(stack->second);
    }
    if (small != stacks.end()) {
      const auto count = static_cast<uint64_t>(stacks.end() - small);
      uint64_t rest = 0;
      for (auto stack = small; stack != stacks.end(); ++stack) rest += stack->second;
      samples.push_back(
          {frame(fmt::format("{} smaller stacks, each below {}", grouped(count), kLeastShareText),
                 "", 0)});
      weights.push_back(rest);
      name += fmt::format(", stacks below {} together", kLeastShareText);
    }
    return object("type, name, unit, startValue, endValue, samples, weights", "sampled", name,
                  "bytes", 0, sum, samples, weights);
  }

  const Json& frames() const { return frames_; }

 private:
  static constexpr uint64_t kLeastShare = 10'000;
  static constexpr std::string_view kLeastShareText = "0.01 %";

  using Stack = std::pair<uint32_t, std::string>;  ///< its number; 0: what is shown in its place

  Json sample(const Stack& stack) {
    Json frames = Json::array();
    const std::vector<Call> calls = profile_.calls_to_write(stack.first);
    for (auto call = calls.rbegin(); call != calls.rend(); ++call)
      frames.push_back(frame(frame_name(*call->frame), call->frame->file, call->frame->line));
    if (frames.empty())
      frames.push_back(frame(stack.first == 0 ? stack.second : std::string(kNoStack), "", 0));
    return frames;
  }

  /// The frame's number; `line` 0: not known.
  size_t frame(std::string name, const std::string& file, int line) {
    const auto [known, added] = ids_.try_emplace({name, file, line}, frames_.size());
    if (!added) return known->second;
    Json json;
    json["name"] = std::move(name);
    if (!file.empty()) json["file"] = file;
    if (line > 0) json["line"] = line;
    frames_.push_back(std::move(json));
    return known->second;
  }

  Profile& profile_;
  Json frames_ = Json::array();
  std::map<std::tuple<std::string, std::string, int>, size_t> ids_;
};

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
    lines[line.empty() ? title_without_stack(profile.replay(), part.group) : line] += part.bytes;
  }
  for (const auto& [stack, bytes] : lines) out << stack << ' ' << bytes << '\n';
}

// speedscope's file format: frames once, then profiles of stacks with weights, root first. The
// browser that reads it becomes slow with hundreds of thousands of stacks, most of which hold next
// to nothing. So stacks below a ten-thousandth of a profile are one, and the profile's name says
// so.

void export_speedscope(Profile& profile, const ExportOptions& options, std::ostream& out) {
  const ScopeId scope = profile.scope(options.scope);
  const Held held = held_at(profile, scope, options.at, options.progress);
  std::vector<Contribution> allocated;
  for (GroupId group{0}; group < profile.replay().sites().group_count(); ++group) {
    const PeakFinder::Group& sums = profile.replay().peaks().group(group);
    if (sums.alloc_bytes == 0 || !profile.counts_into(group, scope)) continue;
    allocated.push_back({group, sums.alloc_bytes, sums.alloc_count});
  }
  const std::string& name = profile.scope_info(scope).name;
  Speedscope writer(profile);
  Json profiles = Json::array();
  profiles.push_back(writer.profile(
      name + (held.is_peak() ? " at its peak" : " live, " + held.moment), held.takers));
  profiles.push_back(writer.profile(name + " live at exit", profile.live(scope)));
  profiles.push_back(writer.profile(name + " allocated in all", allocated));
  Json json = object("$schema, exporter, name, activeProfileIndex",
                     "https://www.speedscope.app/file-format-schema.json", "gpupeak",
                     profile.definitions().shown(profile.path()), 0);
  json["shared"]["frames"] = writer.frames();
  json["profiles"] = std::move(profiles);
  out << json.dump() << '\n';
}

}  // namespace gpupeak::collector
