// Adds groups up by an aggregation key: by site, function, line, file, module, phase, tag, kind,
// thread or instruction. analyze() makes all tables of a summary with it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/replay/replay.h"
#include "collector/rules/stack_rules.h"
#include "collector/summary/site_title.h"
#include "collector/summary/summary.h"
#include "collector/symbols/symbolizer.h"
#include "collector/text/lists.h"

namespace gpupeak::collector {

// Makes the title of a stack in a row of a table: the few of its frames that mean something to the
// reader. From
//
//   cuMemAlloc_v2                 libcuda.so.1       plumbing: left out
//   BFCArena::Reserve             libonnxruntime.so  the first that means something
//   Gemm<float>::PrePack          libonnxruntime.so  a landmark: the nearest that a rule names
//   (4 frames without names)      libonnxruntime.so
//   run_model main.cc:41          my_program         the nearest of the program's own code
//   main, __libc_start_main       my_program         what starts a thread ends the search
//
// it makes "BFCArena::Reserve ← Gemm<float>::PrePack ← run_model main.cc:41". Where Python's lines
// are known, they take the place of the native frames around them. Sites are told apart by the
// functions in their titles, and by their lines.

class SiteTitles {
 public:
  static constexpr size_t kTitleFrames = 3;

  /// One part of a title: a frame, or a run of frames of one library that have no names.
  struct TitlePart {
    const Frame* frame = nullptr;
    uint32_t id = 0;     ///< equal for parts that differ only in their line
    uint32_t place = 0;  ///< equal for equal lines; 0: none is known
    uint32_t run = 0;    ///< how many frames it stands for; 0: one that has a name
    bool operator==(const TitlePart&) const = default;
  };
  /// The parts of a title: the first frame that means something, the nearest one around it, and the
  /// nearest of the program's own code; in Python its nearest Python frames.
  struct Site {
    size_t frame_count = 0;
    std::array<TitlePart, kTitleFrames> parts{};

    void add(const TitlePart& part);
    bool operator==(const Site&) const = default;
  };

  SiteTitles(const Definitions& definitions, Symbolizer& symbolizer);
  Symbolizer& symbolizer() { return symbolizer_; }

  /// Symbolizer::tell_calls_apart(); all sites are found anew.
  void tell_calls_apart(std::set<uint32_t> functions, CallNumbers numbers);

  /// Finds the sites of these stacks, with several processors if they are many.
  void prepare(std::span<const uint32_t> stacks);
  /// Whether the stack has frames of Python.
  bool has_python(uint32_t stack) const;
  /// The site of a stack. The reference stays valid.
  const Site& site(uint32_t stack);
  std::string title(uint32_t stack);
  /// The library of the title's first frame; empty: not known.
  std::string module(uint32_t stack);
  /// A number for something that is no function; functions have other numbers.
  uint32_t intern(const std::string& text);

  /// The parts of a title, to be shown.
  static std::vector<SitePart> parts(const Site& site);

 private:
  /// A frame that a title may show.
  struct Candidate {
    TitlePart part;
    bool own = false, landmark = false;
  };

  using Candidates = std::vector<Candidate>;

  struct SiteHash {
    size_t operator()(const Site& site) const;
  };

  // These use only the symbolizer. If it knows the stack, several threads may call them.
  static void add(Candidates& to, const ResolvedAddress& resolved, size_t frame);
  void find_candidates(uint32_t stack, bool until_python, Candidates& found) const;
  void take_all_frames(uint32_t stack, Candidates& found) const;
  static Site make_native_site(const Candidates& found);
  Site make_site(uint32_t stack, Candidates& scratch) const;
  Site make_python_site(uint32_t stack, Candidates& scratch) const;

  void keep(uint32_t stack, Site site);

  const Definitions& definitions_;
  Symbolizer& symbolizer_;
  std::string program_;  ///< the executable's name, escaped
  /// How many frames of a stack are looked at. A log with stacks of a few bytes each may have a
  /// million stacks of two thousand frames, so with more than 65,536 nodes not all are looked at.
  static constexpr size_t kMostLookedAt = size_t{1} << 27, kAlwaysLookedAt = 128;
  size_t most_frames_;
  Numbers<std::string> interned_;
  Numbers<Site, SiteHash> sites_;   ///< most have many stacks
  std::vector<uint32_t> of_stack_;  ///< by node: number of its site + 1; 0: not asked for yet
  Candidates scratch_;
};

// What the memory of a table's row was used for (BufferRole): the union over the row's blocks that
// were live at a device's peak. Kernels get their names here, and what they may do with an
// argument:
//
//   _Z5scalePKfPf   parameter 0   scale(float const*, float*)   read
//                   parameter 1                                 written
//   scale           parameter 0   no signature                  given

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
  using Blocks = std::vector<const BlockRoles::Block*>;

  BufferRole role_of_blocks(const Blocks& blocks) const;
  Kernel named(uint64_t number) const;
  const Kernel& kernel(uint64_t number) const;

  const Replay& replay_;
  const uint64_t peak_bytes_;
  bool are_recorded_ = false;
  std::unordered_map<GroupId, Blocks> blocks_;
  mutable std::unordered_map<uint64_t, Kernel> kernels_;  ///< that were asked for, by number
};

// What a summary needs of all groups, found in one pass over them after the replay: for each
// context what is live and what was temporary, and which groups still hold memory. A log may have
// millions of groups, but only thousands of contexts.

struct GroupTotals {
  explicit GroupTotals(const Replay& replay);

  struct OfContext {
    uint64_t alloc_bytes = 0, alloc_count = 0;
    /// The group that held most at once; of equal ones the first; kNoGroup: all held nothing.
    GroupId biggest = kNoGroup;
    uint64_t biggest_bytes = 0;
  };
  std::vector<OfContext> contexts;  ///< by ContextId
  std::vector<Contribution> live;   ///< by group: those that hold bytes at the end
  /// By group: how many of its blocks were temporary, in `bytes`, too.
  std::vector<Contribution> temporaries;
};

// How far a sum over sampled blocks may be from the truth. Attribution uses it for rows and for
// whole tables.

/// In a Poisson sample by bytes each block stands for as many bytes as the sample's mean, and a
/// little more. So a sum of n blocks is that mean times a number with Poisson's distribution.
class SamplingError {
 public:
  /// Adds `count` blocks of a sample with this mean; mean 0: they are no sample, and add no error.
  void add(uint64_t sample_bytes, uint64_t count) {
    if (sample_bytes == 0 || count == 0) return;
    const auto mean = static_cast<double>(sample_bytes);
    variance_ += mean * mean * static_cast<double>(count);
    mean_ = std::max(mean_, mean);
  }
  void add(const SamplingError& other) {
    variance_ += other.variance_;
    mean_ = std::max(mean_, other.mean_);
  }

  /// 95 of 100 sums are no further from the truth than this; none: the sum is exact. What a block
  /// adds to the variance is at most the square of the mean, whatever its size: with x = size /
  /// mean it is that square times (x/2 / sinh(x/2))^2. With few blocks the variance itself is
  /// uncertain. So the bound is that of Garwood (1936) for the mean of a Poisson distribution,
  /// within a hundredth: n + 1.96 sqrt(n + 1) + 2, against 3.69 for n = 0 and 18.39 for n = 10.
  std::optional<uint64_t> bytes() const {
    if (mean_ == 0) return std::nullopt;
    constexpr double kDeviations = 1.96;
    const double error = std::ceil(kDeviations * std::sqrt(variance_ + mean_ * mean_) + 2 * mean_);
    // A damaged sample size would give more bytes than anything has.
    return static_cast<uint64_t>(std::min<double>(error, kMaxBlockBytes));
  }

 private:
  double variance_ = 0;  ///< count times mean squared
  double mean_ = 0;      ///< the largest
};

// Finds who held a peak, with a look inside the device's arenas: what they had in use and idle
// takes the place of the calls that took that memory from the driver. The summary, tags and exports
// use it.

/// A part of a peak inside of arenas: in use by a stack or by the name that the arena gave it, or
/// idle.
struct ArenaPart {
  const ArenaTable::Holder* holder;
  uint64_t bytes;
  uint64_t count;  ///< blocks; 0 if it is idle

  bool is_idle() const { return holder->what == ArenaTable::What::kIdle; }
};

/// The parts of a peak. Both lists together add up to it.
struct PeakParts {
  std::vector<Contribution> outside;  ///< outside of all arenas
  std::vector<ArenaPart> in_arenas;   ///< empty unless the scope is all memory of one device
};

/// The calls that took the memory from the driver or the heap: they add up to the peak.
std::vector<Contribution> contributions_at_peak(const Replay& replay, ScopeId scope);
PeakParts parts_at_peak(const Replay& replay, ScopeId scope);
/// What an arena's holder has of a device's memory at some instant.
using HeldByHolder = std::function<PeakFinder::AtPeak(HolderId)>;
/// Splits `held`: the first `count` holders of arenas take the place of the calls that took that
/// memory.
PeakParts split_by_arenas(const ArenaTable& table, size_t count, const HeldByHolder& held_by,
                          std::vector<Contribution> held);
/// What a block without a call stack is shown as, in each view.
std::string title_without_stack(const Replay& replay, GroupId group);
/// "idle in PyTorch's arena".
std::string idle_title(const Replay& replay, const ArenaTable::Holder& holder);

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
  /// Holder::stack. `roles`: fill Holder::role, and Holder::resident.
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
