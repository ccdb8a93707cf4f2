// Adds groups up by an aggregation key: by site, function, line, file, module, phase, tag, kind,
// thread or instruction. analyze() makes all tables of a summary with it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/analyze/arena_peak.h"
#include "collector/analyze/group_totals.h"
#include "collector/analyze/row_roles.h"
#include "collector/analyze/site_titles.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"
#include "collector/symbols/symbolizer.h"

namespace gpupeak::collector {

enum class GroupBy { kSite, kFunction, kLine, kFile, kModule, kPhase, kTag, kKind, kThread, kIp };

struct Grouping {
  GroupBy by;
  const char* name;  ///< its name in options, reports and the page
};
inline constexpr std::array<Grouping, 10> kGroupings{{{GroupBy::kSite, "site"},
                                                      {GroupBy::kFunction, "function"},
                                                      {GroupBy::kLine, "line"},
                                                      {GroupBy::kFile, "file"},
                                                      {GroupBy::kModule, "module"},
                                                      {GroupBy::kPhase, "phase"},
                                                      {GroupBy::kTag, "tag"},
                                                      {GroupBy::kKind, "kind"},
                                                      {GroupBy::kThread, "thread"},
                                                      {GroupBy::kIp, "ip"}}};

/// Throws UsageError for a name that is none of these.
GroupBy parse_group_by(std::string_view name);
std::string_view group_by_name(GroupBy by);

struct HolderTable {
  std::vector<Holder> rows;  ///< largest first
  uint64_t other_bytes = 0;  ///< of the rows that were cut off
  uint64_t other_rows = 0;
  std::optional<uint64_t> error_bytes;  ///< the error of the sum of all; see Holder
};

class Attribution {
 public:
  /// `tagger`: needed only for kTag. It and `sites` must outlive this.
  Attribution(const Replay& replay, SiteTitles& sites, GroupBy by, Tagger* tagger = nullptr);

  GroupBy by() const { return by_; }
  /// The `top` largest rows. Memory of different kinds is never added up. `with_stacks`: fill
  /// Holder::stack. `roles`: fill Holder::role.
  HolderTable table(const std::vector<Contribution>& contributions, size_t top, bool with_stacks,
                    const RowRoles* roles = nullptr);
  /// One group as a row of "by site".
  Holder holder(const Contribution& contribution, bool with_stack);
  /// The row of a group; groups with the same number are in one row of a table.
  uint32_t row_of(GroupId group);
  /// The title of a stack in "by site".
  std::string site_title(uint32_t stack) { return sites_.title(stack); }
  /// The frames of which a row's title is made, if it is made of frames.
  std::vector<SitePart> parts(uint32_t stack);
  /// The library of the title's first frame; empty: not known.
  std::string site_module(uint32_t stack) { return sites_.module(stack); }
  /// The name of a phase; nullopt for phase 0.
  std::optional<std::string> phase_name(PhaseId phase) const;
  /// The name of the innermost phase that is not a library's own;
  /// nullopt: there is none.
  std::optional<std::string> program_phase_name(PhaseId phase) const;
  bool is_of_library(PhaseId phase) const;

 private:
  static constexpr uint32_t kNoRow = UINT32_MAX;

  using Key = std::array<uint64_t, SiteTitles::kTitleFrames + 1>;
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Row {
    uint32_t number = 0;
    uint64_t bytes = 0, count = 0;
    Contribution largest{};
    /// Its first group's context; nullptr: it has no group yet.
    const SiteContext* first = nullptr;
    uint64_t alloc_count = 0, temporary_count = 0, longest_life_ticks = 0;
    SamplingError error;
    bool same_api = true, same_phase = true, same_thread = true;
  };

  bool by_stack() const;
  uint32_t& known_row_of(GroupId group);
  void name_stacks(const std::vector<Contribution>& contributions);
  Key key(GroupId group);
  std::string title(GroupId group);
  Holder make_holder(const Row& row, bool with_stack);
  void add(Row& row, const Contribution& contribution) const;
  std::vector<Row> rows_of(const std::vector<Contribution>& contributions);
  std::string thread_title(uint32_t tid) const;

  const Replay& replay_;
  GroupBy by_;
  Tagger* tagger_;
  SiteTitles& sites_;
  std::unordered_map<Key, uint32_t, KeyHash> rows_;
  std::vector<uint32_t> row_of_group_;  ///< kNoRow: not asked for yet
  std::vector<uint32_t> row_of_stack_;  ///< for heap groups, if rows go by stacks alone
  std::vector<uint32_t> place_of_row_;  ///< used within table(); else all are kNoRow
};

}  // namespace gpupeak::collector
