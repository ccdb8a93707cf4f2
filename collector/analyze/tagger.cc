#include "collector/analyze/tagger.h"

#include <utility>

#include "collector/analyze/arena_peak.h"
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

/// `named`: the tag that the program set, or 0.
uint32_t Tagger::tag_of(uint32_t named, PhaseId phase, uint32_t stack) {
  if (named != 0) return intern(replay_.log().definitions().shown(replay_.name(named)));
  const std::string_view in = phase == 0 ? "" : replay_.name(replay_.phases().phases()[phase].name);
  const uint32_t rule = rules_.rule_of(stack, in);
  if (rule == kNoRule) return 0;
  if (rule >= of_rule_.size()) of_rule_.resize(rule + 1);
  if (!of_rule_[rule])
    of_rule_[rule] = intern(replay_.log().definitions().shown(rules_.name(rule)));
  return *of_rule_[rule];
}

uint32_t Tagger::tag(GroupId group) {
  const SiteContext& context = replay_.sites().context_of(group);
  return tag_of(context.tag, context.phase, replay_.sites().info(group).stack);
}

uint32_t Tagger::tag(const ArenaTable::Holder& holder) {
  if (holder.what == ArenaTable::What::kIdle) return intern(idle_title(replay_, holder));
  const uint32_t named = holder.cause.tag != 0 ? holder.cause.tag : holder.name;
  return tag_of(named, holder.cause.phase, holder.stack);
}

}  // namespace gpupeak::collector
