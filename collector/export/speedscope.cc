// speedscope's file format: frames once, then profiles of stacks with weights, root first.
#include <map>
#include <tuple>

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
        stack.push_back(frame(frame_name(*call->frame), call->frame->file, call->frame->line));
      }
      if (stack.empty()) stack.push_back(frame(std::string(kNoStack), "", 0));
      samples.push_back(std::move(stack));
      weights.push_back(part.bytes);
      sum += part.bytes;
    }
    return {{"type", "sampled"}, {"name", name},       {"unit", "bytes"},   {"startValue", 0},
            {"endValue", sum},   {"samples", samples}, {"weights", weights}};
  }

  const Json& frames() const { return frames_; }

 private:
  /// Its number; `line` 0: not known.
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
  json["name"] = profile.definitions().shown(profile.path());
  json["activeProfileIndex"] = 0;
  json["shared"]["frames"] = writer.frames();
  json["profiles"] = std::move(profiles);
  out << json.dump() << '\n';
}

}  // namespace gpupeak::collector
