// What the memory of a table's row was used for (BufferRole): the union over the row's blocks that
// were live at a device's peak. Kernels get their names here, and what they may do with an
// argument:
//
//   _Z5scalePKfPf   parameter 0   scale(float const*, float*)   read
//                   parameter 1                                 written
//   scale           parameter 0   no signature                  given
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/replay/replay.h"
#include "collector/rules/stack_rules.h"
#include "collector/summary/summary.h"
#include "collector/text/numbers.h"

namespace gpupeak::collector {

// Tells what each group is for: the tag that the program set, or else the first tag rule that
// matches. attribution.h groups by it.

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

 private:
  uint32_t tag_of(uint32_t named, PhaseId phase, uint32_t stack);

  const Replay& replay_;
  StackTags rules_;
  Numbers<std::string> names_;                    ///< of tags; the first is kOthers
  std::vector<std::optional<uint32_t>> of_rule_;  ///< numbers of tags; nullopt: not asked for yet
};

/// What a kernel may do with an address that it gets as this parameter. `function`: demangled.
/// nullopt: by the signature the parameter is a number, which only looks like an address.
std::optional<KernelAccess> access_of(std::string_view function, size_t parameter);

class RowRoles {
 public:
  /// For the scope of one device; else role_of() is always nullopt.
  RowRoles(const Replay& replay, ScopeId scope);

  bool are_recorded() const { return are_recorded_; }
  /// `groups`: of the row. nullopt: the log does not say.
  std::optional<BufferRole> role_of(std::span<const GroupId> groups) const;

 private:
  struct Kernel {
    std::string function;  ///< demangled
    std::string library;
  };
  Kernel named(uint64_t number) const;
  const Kernel& kernel(uint64_t number) const;

  const Replay& replay_;
  bool are_recorded_ = false;
  std::unordered_map<GroupId, std::vector<const BlockRoles::Block*>> blocks_;
  mutable std::unordered_map<uint64_t, Kernel> kernels_;  ///< that were asked for, by number
};

}  // namespace gpupeak::collector
