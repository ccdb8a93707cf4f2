#include "collector/analyze/attribution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

#include "collector/log/event.h"
#include "collector/log/kinds.h"
#include "collector/replay/big_arrays.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {

GroupTotals::GroupTotals(const Replay& replay) : contexts(replay.sites().contexts().size()) {
  for (GroupId id{}; id < replay.sites().group_count(); ++id) {
    const PeakFinder::Group& group = replay.peaks().group(id);
    OfContext& of = contexts[replay.sites().info(id).context];
    of.alloc_bytes += group.alloc_bytes;
    of.alloc_count += group.alloc_count;
    if (group.max_live_bytes > of.biggest_bytes) {
      of.biggest = id;
      of.biggest_bytes = group.max_live_bytes;
    }
    if (group.live_bytes > 0) live.push_back({id, group.live_bytes, group.live_count});
    if (group.temporary_count > 0)
      temporaries.push_back({id, group.temporary_count, group.temporary_count});
  }
}

namespace {

using Use = ArenaTable::What;

/// The scope in which arenas split a device's memory; nullptr: there is none with the same peak.
const ScopeId* split_scope(const Replay& replay, ScopeId scope) {
  const ScopeInfo& info = replay.sites().scopes()[scope];
  if (info.kind != 0 || info.device < 0) return nullptr;
  const ArenaTable& table = replay.arenas();
  const ScopeId* driver = table.device_scope(info.device);
  const bool same =
      driver != nullptr && table.peaks().scope(*driver).peak == replay.peaks().scope(scope).peak;
  return same ? driver : nullptr;
}

// The NVTX domains in which libraries mark their own insides: XLA's passes, NCCL's collectives.
// Such a mark tells where a library was, not what the program did, so no headline names it as the
// phase.

// The names that libraries give them (nvtxDomainCreate in their sources), in lower case. TensorRT
// is not among them: its ranges are the model's layers.
constexpr std::array<std::string_view, 11> kLibraryDomains = {
    "cccl",     "cublas",  "cudnn", "cufft",   "cusolver", "cusparse",
    "cutensor", "libcudf", "nccl",  "nvshmem", "tsl"};

/// `domain`: an NVTX domain's name; case does not matter.
bool is_library_domain(std::string_view domain) {
  const auto same = [domain](std::string_view name) {
    return std::equal(domain.begin(), domain.end(), name.begin(), name.end(), [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    });
  };
  return std::ranges::any_of(kLibraryDomains, same);
}

uint64_t with_place(const SiteTitles::TitlePart& part) {
  return uint64_t{part.place} << 32 | part.id;
}

/// The file of a frame, or its library if the file is not known.
std::string file_title(const Frame& frame) {
  if (!frame.file.empty()) return frame.file;
  return frame.module.empty() ? "(no module)" : fmt::format("{} (no lines)", frame.module);
}

}  // namespace

std::vector<Contribution> contributions_at_peak(const Replay& replay, ScopeId scope) {
  std::vector<Contribution> held;
  held.reserve(replay.peaks().most_at_peak());
  replay.peaks().visit_at_peak(scope, [&](GroupId group, const PeakFinder::AtPeak& at) {
    held.push_back({group, at.bytes, at.count});
  });
  return held;
}

PeakParts split_by_arenas(const ArenaTable& table, size_t count, const HeldByHolder& held_by,
                          std::vector<Contribution> held) {
  PeakParts parts;
  parts.outside = std::move(held);
  std::unordered_map<GroupId, PeakFinder::AtPeak> outside;
  for (size_t id = 0; id < count; ++id) {
    const PeakFinder::AtPeak has = held_by(static_cast<HolderId>(id));
    const ArenaTable::Holder& holder = table.holders()[id];
    if (holder.what == Use::kOutside) {
      outside[holder.outside] = has;
    } else if (has.bytes > 0) {
      parts.in_arenas.push_back(
          {&holder, has.bytes, holder.what == Use::kIdle ? 0 : uint64_t{has.count}});
    }
  }
  if (parts.in_arenas.empty()) return parts;
  for (Contribution& part : parts.outside) {
    if (const auto* const split = value_in(outside, part.group))
      part.bytes = split->bytes, part.count = split->count;
  }
  std::erase_if(parts.outside, [](const Contribution& part) { return part.bytes == 0; });
  return parts;
}

PeakParts parts_at_peak(const Replay& replay, ScopeId scope) {
  const ScopeId* driver = split_scope(replay, scope);
  if (driver == nullptr) return {contributions_at_peak(replay, scope), {}};
  const ArenaTable& table = replay.arenas();
  return split_by_arenas(
      table, table.holders().size(),
      [&](HolderId id) { return table.peaks().at_peak(as_group(id), *driver); },
      contributions_at_peak(replay, scope));
}

std::string idle_title(const Replay& replay, const ArenaTable::Holder& holder) {
  const uint32_t name = replay.arenas().arenas()[holder.arena].name;
  return "idle in " + replay.log().definitions().shown(replay.name(name)) + "'s pool";
}

GroupBy parse_group_by(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Grouping& grouping : kGroupings) {
    if (name == grouping.name) return grouping.by;
    names.emplace_back(grouping.name);
  }
  throw UsageError("cannot group by '{}': choose {}", escape(name), fmt::join(names, ", "));
}

std::string_view group_by_name(GroupBy by) {
  return std::ranges::find(kGroupings, by, &Grouping::by)->name;
}

Attribution::Attribution(const Replay& replay, SiteTitles& sites, GroupBy by, Tagger* tagger)
    : replay_(replay), by_(by), tagger_(tagger), sites_(sites) {}

bool Attribution::by_stack() const {
  return by_ == GroupBy::kSite || by_ == GroupBy::kFunction || by_ == GroupBy::kLine ||
         by_ == GroupBy::kFile || by_ == GroupBy::kModule || by_ == GroupBy::kIp;
}

/// Finds the titles of all stacks at once, which takes less time than one by one.
void Attribution::name_stacks(const std::vector<Contribution>& contributions) {
  if (!by_stack()) return;
  sites_.prepare(list_of(contributions, [&](const Contribution& contribution) {
    return replay_.sites().info(contribution.group).stack;
  }));
}

Attribution::Key Attribution::key(GroupId group) {
  const SiteContext& context = replay_.sites().context_of(group);
  const uint64_t kind = context.kind;
  switch (by_) {
    case GroupBy::kPhase:
      return {kind, context.phase};
    case GroupBy::kTag:
      return {kind, tagger_->tag(group)};
    case GroupBy::kKind:
      return {kind};
    case GroupBy::kThread:
      return {kind, context.tid};
    default:
      break;
  }
  const SiteTitles::Site& named = sites_.site(replay_.sites().info(group).stack);
  if (named.frame_count == 0) {
    // Without a stack only the API tells sites apart.
    return {kind, UINT64_MAX, by_ == GroupBy::kSite ? context.api : 0};
  }
  const Frame& first = *named.parts[0].frame;
  switch (by_) {
    case GroupBy::kModule:
      return {kind, sites_.intern(first.module)};
    case GroupBy::kFunction:
      return {kind, named.parts[0].id};
    case GroupBy::kLine:
      return {kind, with_place(named.parts[0])};
    case GroupBy::kFile:
      return {kind, sites_.intern(file_title(first))};
    default:
      break;
  }
  Key result{kind, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  for (size_t i = 0; i < named.frame_count; ++i) {
    const Frame& frame = *named.parts[i].frame;
    const bool by_address = by_ == GroupBy::kIp && !frame.is_python;
    result[i + 1] = by_address ? frame.address : with_place(named.parts[i]);
  }
  return result;
}

std::string Attribution::thread_title(uint32_t tid) const {
  const auto name = replay_.thread_names().find(tid);
  if (name == replay_.thread_names().end()) return fmt::format("thread {}", tid);
  return fmt::format("thread {} ({})", tid, replay_.log().definitions().shown(name->second));
}

std::string title_without_stack(const Replay& replay, GroupId group) {
  const SiteContext& context = replay.sites().context_of(group);
  const std::string api = replay.log().definitions().shown_string(context.api);
  if (!api.empty()) return fmt::format("{} {}", api, kNoStack);
  const bool was_counted = (replay.log().header().flags & GPUPEAK_FLAG_COUNTED) != 0;
  return std::string(was_counted && context.kind == GPUPEAK_KIND_MMAP_ANON ? kBeforeRecording
                                                                           : kNoStack);
}

std::string Attribution::title(GroupId group) {
  const SiteContext& context = replay_.sites().context_of(group);
  const uint32_t stack = replay_.sites().info(group).stack;
  switch (by_) {
    case GroupBy::kPhase:
      return phase_name(context.phase).value_or("(no phase)");
    case GroupBy::kTag:
      return tagger_->name(tagger_->tag(group));
    case GroupBy::kKind:
      return std::string(kind_path(context.kind));
    case GroupBy::kThread:
      return thread_title(context.tid);
    default:
      break;
  }
  const SiteTitles::Site& named = sites_.site(stack);
  if (named.frame_count == 0) {
    const std::string text = title_without_stack(replay_, group);
    return by_ == GroupBy::kSite || text == kBeforeRecording ? text : std::string(kNoStack);
  }
  const Frame& first = *named.parts[0].frame;
  switch (by_) {
    case GroupBy::kModule:
      return first.module.empty() ? "(no module)" : first.module;
    case GroupBy::kFile:
      return file_title(first);
    case GroupBy::kIp: {
      std::vector<std::string> calls;
      for (size_t i = 0; i < named.frame_count; ++i) {
        const Frame& frame = *named.parts[i].frame;
        const bool nameless = frame.function.empty() || frame.module.empty() || frame.is_python;
        calls.push_back(nameless ? frame_title(frame)
                                 : fmt::format("{} {}+{:#x}",
                                               short_frame_name(frame) + frame_place(frame),
                                               frame.module, frame.offset));
      }
      return fmt::format("{}", fmt::join(calls, kArrow));
    }
    default:
      return collector::site_title(parts(stack));
  }
}

std::vector<SitePart> Attribution::parts(uint32_t stack) {
  if (by_ != GroupBy::kSite && by_ != GroupBy::kFunction && by_ != GroupBy::kLine) return {};
  std::vector<SitePart> parts = SiteTitles::parts(sites_.site(stack));
  if (by_ != GroupBy::kSite && parts.size() > 1) parts.resize(1);
  if (by_ == GroupBy::kFunction && !parts.empty()) parts = without_lines(std::move(parts));
  return parts;
}

std::optional<std::string> Attribution::phase_name(PhaseId phase) const {
  if (phase == 0) return std::nullopt;
  const Phase& named = replay_.phases().phases()[phase];
  return phase_text(replay_, {named.name, named.source, named.instance});
}

bool Attribution::is_of_library(PhaseId phase) const {
  const Phase& named = replay_.phases().phases()[phase];
  return named.source == GPUPEAK_PHASE_NVTX && named.instance != 0 &&
         is_library_domain(
             replay_.log().definitions().shown_string(static_cast<uint32_t>(named.instance)));
}

std::optional<std::string> Attribution::program_phase_name(PhaseId phase) const {
  while (phase != 0 && is_of_library(phase)) phase = replay_.phases().phases()[phase].parent;
  return phase_name(phase);
}

void Attribution::add(Row& row, const Contribution& contribution) const {
  const PeakFinder::Group& group = replay_.peaks().group(contribution.group);
  const SiteContext& context = replay_.sites().context_of(contribution.group);
  if (row.first == nullptr) {
    row.first = &context;
    row.largest = contribution;
  } else {
    row.same_api &= row.first->api == context.api;
    row.same_phase &= row.first->phase == context.phase;
    row.same_thread &= row.first->tid == context.tid;
    if (contribution.bytes > row.largest.bytes) row.largest = contribution;
  }
  add_part(row, contribution);
  row.error.add(context.sample_bytes, contribution.count);
  row.alloc_count += group.alloc_count;
  row.temporary_count += group.temporary_count;
  if (context.kind == GPUPEAK_KIND_HEAP) return;
  row.longest_life_ticks =
      std::max(row.longest_life_ticks, replay_.device().longest_life_ticks(contribution.group));
}

Holder Attribution::make_holder(const Row& row, bool with_stack) {
  const GroupId group = row.largest.group;
  const SiteContext& context = replay_.sites().context_of(group);
  const collector::Site& info = replay_.sites().info(group);
  const SiteTitles::Site& named = sites_.site(info.stack);
  Holder holder;
  holder.title = title(group);
  holder.parts = parts(info.stack);
  holder.kind = kind_path(context.kind);
  holder.bytes = row.bytes;
  holder.count = row.count;
  holder.error_bytes = row.error.bytes();
  if (row.same_api) holder.api = replay_.log().definitions().shown_string(context.api);
  if (named.frame_count > 0) holder.module = named.parts[0].frame->module;
  if (row.same_phase) holder.phase = phase_name(context.phase);
  if (row.same_thread) holder.thread_id = context.tid;
  if (with_stack) holder.stack = sites_.symbolizer().stack(info.stack);
  // Heap rows are not marked: a thread's last block counts as temporary, too, however long it
  // lived.
  holder.temporary = context.kind != GPUPEAK_KIND_HEAP && row.alloc_count > 0 &&
                     row.temporary_count == row.alloc_count;
  const ClockMap& clock = replay_.log().clock();
  const uint64_t start = replay_.log().header().start_ticks;
  holder.longest_life_ns = clock.to_ns(start + row.longest_life_ticks);
  return holder;
}

Holder Attribution::holder(const Contribution& contribution, bool with_stack) {
  Row row;
  add(row, contribution);
  return make_holder(row, with_stack);
}

size_t Attribution::KeyHash::operator()(const Key& key) const {
  uint64_t mixed = 0;
  for (const uint64_t part : key) {
    mixed = (mixed ^ part) * UINT64_C(0x9e3779b97f4a7c15);
    mixed ^= mixed >> 32;
  }
  return mixed;
}

/// The entry for a group's row. Heap groups share one for each stack: there may be as many of them
/// as there are threads and phases.
uint32_t& Attribution::known_row_of(GroupId group) {
  const auto entry = [](std::vector<uint32_t>& rows, size_t i, size_t count) -> uint32_t& {
    if (i >= rows.size()) rows.resize(count, kNoRow);
    return rows[i];
  };
  const SiteContext& context = replay_.sites().context_of(group);
  if (by_stack() && context.kind == GPUPEAK_KIND_HEAP && context.api == 0) {
    return entry(row_of_stack_, replay_.sites().info(group).stack,
                 replay_.log().definitions().nodes().size());
  }
  return entry(row_of_group_, group, replay_.sites().group_count());
}

uint32_t Attribution::row_of(GroupId group) {
  uint32_t& row = known_row_of(group);
  if (row == kNoRow)
    row = rows_.try_emplace(key(group), static_cast<uint32_t>(rows_.size())).first->second;
  return row;
}

/// Adds the contributions up to rows, in the order in which they come.
std::vector<Attribution::Row> Attribution::rows_of(const std::vector<Contribution>& contributions) {
  std::vector<uint32_t> places;  // the row of each contribution
  places.reserve(contributions.size());
  std::vector<Row> rows;
  for (const Contribution& contribution : contributions) {
    const uint32_t number = row_of(contribution.group);
    if (number >= place_of_row_.size()) place_of_row_.resize(rows_.size(), kNoRow);
    uint32_t& place = place_of_row_[number];
    if (place == kNoRow) {
      place = static_cast<uint32_t>(rows.size());
      rows.emplace_back().number = number;
    }
    places.push_back(place);
  }
  for (const Row& row : rows) place_of_row_[row.number] = kNoRow;
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < contributions.size(); ++i) {
    if (i + kAhead < places.size()) prefetch_line(&rows[places[i + kAhead]]);
    add(rows[places[i]], contributions[i]);
  }
  return rows;
}

/// Shared memory is in no place. Of the heap only rows of large blocks are known, if the look has
/// the same as the peak.
std::optional<Holder::Resident> resident_of(const Replay::Resident::InPlaces& in,
                                            const ResidentEvent& look, const Holder& row) {
  const bool is_heap = row.kind == "host.heap";
  if (is_heap && (in.all != row.bytes || in.count != row.count)) return std::nullopt;
  const auto [least, most] = in.resident(look);
  return Holder::Resident{least, most + (is_heap ? 0 : look.shared)};
}

HolderTable Attribution::table(const std::vector<Contribution>& contributions, size_t top,
                               bool with_stacks, const RowRoles* roles) {
  name_stacks(contributions);
  const std::vector<Row> rows = rows_of(contributions);
  auto order = list_of(rows, [](const Row& row) { return &row; });
  const size_t shown = std::min(top, order.size());
  std::ranges::partial_sort(
      order, order.begin() + static_cast<ptrdiff_t>(shown), {},
      [](const Row* of) { return std::tuple(UINT64_MAX - of->bytes, UINT64_MAX - of->count, of); });
  std::unordered_map<uint32_t, std::vector<GroupId>> groups;  // by the row's number
  if (roles != nullptr && roles->are_recorded()) {
    for (const Contribution& held : contributions) groups[row_of(held.group)].push_back(held.group);
  }
  std::unordered_map<uint32_t, Replay::Resident::InPlaces> in_places;
  if (roles != nullptr)
    for (const auto& [group, in] : replay_.resident().in_places) in_places[row_of(group)].add(in);
  HolderTable table;
  SamplingError error;
  for (const Row* row : order) error.add(row->error);
  table.error_bytes = error.bytes();
  for (size_t i = 0; i < order.size(); ++i) {
    if (i < shown) {
      table.rows.push_back(make_holder(*order[i], with_stacks));
      Holder& holder = table.rows.back();
      if (roles != nullptr) holder.role = roles->role_of(groups[order[i]->number]);
      if (const auto* in = value_in(in_places, order[i]->number))
        holder.resident = resident_of(*in, replay_.resident().event, holder);
    } else {
      table.other_bytes += order[i]->bytes;
      ++table.other_rows;
    }
  }
  tell_apart(table.rows);
  return table;
}

}  // namespace gpupeak::collector
