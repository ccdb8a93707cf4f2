#include "collector/fit/scale_finder.h"

#include <algorithm>
#include <string>

#include "collector/text/glob.h"

namespace gpupeak::collector {

ScaleFinder::Found ScaleFinder::find(uint32_t stack, PhaseId phase,
                                     const std::vector<std::string>& names) {
  Found found;
  if (scales_.empty()) return found;
  std::vector<std::string> texts = names;
  texts.push_back(profile_.titles().title(stack));
  for (const Call& call : profile_.calls(stack)) {
    texts.push_back(frame_title(*call.frame));
    texts.push_back(call.frame->function);
  }
  for (; phase != 0; phase = profile_.replay().phases().phases()[phase].parent) {
    const Phase& of = profile_.replay().phases().phases()[phase];
    texts.push_back(phase_text(profile_.replay(), {of.name, of.source, of.instance}));
  }
  found.by.resize(scales_.size());
  for (size_t i = 0; i < scales_.size(); ++i) {
    const bool matches = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return glob_match(scales_[i].pattern, text);
    });
    found.by[i] = matches;
    if (matches) found.factor *= scales_[i].factor;
  }
  return found;
}

double ScaleFinder::of_group(GroupId group) {
  const auto [entry, is_new] = by_group_.try_emplace(group);
  if (is_new) {
    const Site& site = profile_.replay().sites().info(group);
    const SiteContext& context = profile_.replay().sites().context_of(group);
    entry->second =
        find(site.stack, context.phase, {profile_.tagger().name(profile_.tagger().tag(group))});
  }
  return entry->second.factor;
}

double ScaleFinder::of_holder(HolderId holder) {
  const auto [entry, is_new] = by_holder_.try_emplace(holder);
  if (is_new) {
    const ArenaTable::Holder& of = profile_.replay().arenas().holder(holder);
    std::vector<std::string> names{profile_.tagger().name(profile_.tagger().tag(of))};
    if (of.name != 0) names.emplace_back(profile_.replay().name(of.name));
    entry->second = find(of.stack, of.cause.phase, names);
  }
  return entry->second.factor;
}

void ScaleFinder::note(const Found& found) {
  for (size_t i = 0; i < found.by.size(); ++i) matched_[i] += found.by[i];
}

}  // namespace gpupeak::collector
