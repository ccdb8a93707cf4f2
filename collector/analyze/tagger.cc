#include "collector/analyze/tagger.h"

#include <utility>

#include "collector/text/sanitize.h"

namespace gpupeak::collector {

Tagger::Tagger(const Replay& replay, Symbolizer& symbolizer, std::vector<Rule> rules)
    : replay_(replay),
      rules_(FrameRules(replay.log().definitions(), symbolizer, std::move(rules))) {}

uint32_t Tagger::intern(const std::string& name) {
  const auto [entry, added] = ids_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (added) names_.push_back(name);
  return entry->second;
}

uint32_t Tagger::tag(GroupId group) {
  const SiteContext& context = replay_.sites().context_of(group);
  if (context.tag != 0) return intern(replay_.log().definitions().shown(replay_.name(context.tag)));
  const std::string phase =
      context.phase == 0 ? ""
                         : std::string(replay_.name(replay_.phases().phases()[context.phase].name));
  const uint32_t rule = rules_.rule_of(replay_.sites().info(group).stack, phase);
  return rule == kNoRule ? 0 : intern(replay_.log().definitions().shown(rules_.name(rule)));
}

}  // namespace gpupeak::collector
