// speedscope's file format: frames once, then profiles of stacks with weights, root first.
#include <unordered_map>

#include "collector/export/export.h"
#include "collector/text/sanitize.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {
namespace {

class Speedscope {
 public:
  explicit Speedscope(Profile& profile) : profile_(profile) {}

  Json profile(const std::string& name, const std::vector<Contribution>& parts) {
    Json samples = Json::array();
    Json weights = Json::array();
    uint64_t sum = 0;
    for (const Contribution& part : parts) {
      Json stack = Json::array();
      const std::vector<Call> calls =
          profile_.calls(profile_.replay().sites().info(part.group).stack);
      for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
        stack.push_back(frame(*call->frame));
      }
      if (stack.empty()) stack.push_back(frame(kNoFrame));
      samples.push_back(std::move(stack));
      weights.push_back(part.bytes);
      sum += part.bytes;
    }
    return {{"type", "sampled"}, {"name", name},       {"unit", "bytes"},   {"startValue", 0},
            {"endValue", sum},   {"samples", samples}, {"weights", weights}};
  }

  const Json& frames() const { return frames_; }

 private:
  size_t frame(const Frame& frame) {
    Json json;
    json["name"] = &frame == &kNoFrame ? std::string(kNoStack) : frame_name(frame);
    if (!frame.file.empty()) json["file"] = frame.file;
    if (frame.line > 0) json["line"] = frame.line;
    const auto [known, added] = ids_.try_emplace(json.dump(), frames_.size());
    if (added) frames_.push_back(std::move(json));
    return known->second;
  }

  static inline const Frame kNoFrame;
  Profile& profile_;
  Json frames_ = Json::array();
  std::unordered_map<std::string, size_t> ids_;
};

}  // namespace

void export_speedscope(Profile& profile, const ExportOptions& options, std::ostream& out) {
  const ScopeId scope = profile.scope(options.scope);
  std::vector<Contribution> allocated;
  for (GroupId group = 0; group < profile.replay().sites().group_count(); ++group) {
    const PeakFinder::Group& sums = profile.replay().peaks().group(group);
    if (sums.alloc_bytes == 0 || !profile.counts_into(group, scope)) continue;
    allocated.push_back({group, sums.alloc_bytes, sums.alloc_count});
  }
  const std::string& name = profile.scope_info(scope).name;
  Speedscope writer(profile);
  Json profiles = Json::array();
  profiles.push_back(writer.profile(name + " at its peak", profile.at_peak(scope)));
  profiles.push_back(writer.profile(name + " live at exit", profile.live(scope)));
  profiles.push_back(writer.profile(name + " allocated in all", allocated));
  Json json;
  json["$schema"] = "https://www.speedscope.app/file-format-schema.json";
  json["exporter"] = "gpupeak";
  json["name"] = sanitize(profile.path());
  json["activeProfileIndex"] = 0;
  json["shared"]["frames"] = writer.frames();
  json["profiles"] = std::move(profiles);
  out << json.dump() << '\n';
}

}  // namespace gpupeak::collector
