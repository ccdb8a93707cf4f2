// Tells what each group is for: the tag that the program set, or else the first tag rule that
// matches. attribution.h groups by it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "collector/replay/replay.h"
#include "collector/rules/stack_rules.h"

namespace gpupeak::collector {

/// The tag of what no rule matches.
inline constexpr std::string_view kOthers = "Others";

class Tagger {
 public:
  Tagger(const Replay& replay, Symbolizer& symbolizer, std::vector<Rule> rules);

  /// The number of a group's tag, equal for equal tags; 0: none.
  uint32_t tag(GroupId group);
  /// The tag of an arena's holder. In use, the name that the arena gave it counts, too. Idle, it is
  /// the arena.
  uint32_t tag(const ArenaTable::Holder& holder);
  const std::string& name(uint32_t tag) const { return names_[tag]; }
  void prepare_ahead(std::span<const uint32_t> nodes, const std::stop_token& stop) {
    rules_.prepare_ahead(nodes, stop);
  }

 private:
  uint32_t intern(const std::string& name);
  uint32_t tag_of(uint32_t named, PhaseId phase, uint32_t stack);

  const Replay& replay_;
  StackTags rules_;
  std::vector<std::string> names_{std::string(kOthers)};
  std::vector<std::optional<uint32_t>> of_rule_;  ///< numbers of tags; nullopt: not asked for yet
  std::map<std::string, uint32_t> ids_{{std::string(kOthers), 0}};
};

}  // namespace gpupeak::collector
