#include "collector/analyze/attribution.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/log/kinds.h"
#include "collector/text/error.h"
#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

uint64_t line_of(const Frame& frame) {
  return static_cast<uint64_t>(frame.line);
}

}  // namespace

std::string frame_title(const Frame& frame) {
  if (frame.is_python) {
    const std::string place = frame.line > 0 ? fmt::format(":{}", frame.line) : "";
    return frame_name(frame) + place;
  }
  return frame.function.empty() ? frame_name(frame) : short_function_name(frame.function);
}

std::string frame_name(const Frame& frame) {
  if (frame.is_python) return fmt::format("{} {}", frame.function, frame.module);
  if (!frame.function.empty()) return frame.function;
  if (!frame.module.empty()) return fmt::format("{}+{:#x}", frame.module, frame.offset);
  return fmt::format("{:#x}", frame.address);
}

GroupBy parse_group_by(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Grouping& grouping : kGroupings) {
    if (name == grouping.name) return grouping.by;
    names.emplace_back(grouping.name);
  }
  throw UsageError(
      fmt::format("cannot group by '{}': choose {}", escape(name), fmt::join(names, ", ")));
}

std::string_view group_by_name(GroupBy by) {
  return std::find_if(kGroupings.begin(), kGroupings.end(),
                      [&](const Grouping& grouping) { return grouping.by == by; })
      ->name;
}

Attribution::Attribution(const Replay& replay, Symbolizer& symbolizer, GroupBy by, Tagger* tagger)
    : replay_(replay), symbolizer_(symbolizer), by_(by), tagger_(tagger) {
  const std::string_view exe = replay.log().definitions().fact("exe");
  program_ = escape(exe.substr(exe.rfind('/') + 1));
}

/// Numbers apart from those of functions, for what is no function.
uint32_t Attribution::intern(std::string text) {
  constexpr uint32_t kFirst = UINT32_C(1) << 31;
  const auto next = kFirst + static_cast<uint32_t>(interned_.size());
  return interned_.try_emplace(std::move(text), next).first->second;
}

const Attribution::Site& Attribution::site(uint32_t stack) {
  const auto known = sites_.find(stack);
  if (known != sites_.end()) return known->second;
  return sites_.emplace(stack, make_site(stack)).first->second;
}

void Attribution::Site::add(const TitlePart& part) {
  if (frame_count == kTitleFrames) return;
  // A compiler may split a function in two that call each other.
  if (frame_count > 0 && parts[frame_count - 1].id == part.id) return;
  parts[frame_count++] = part;
}

bool Attribution::has_python(uint32_t stack) const {
  const Definitions& definitions = replay_.log().definitions();
  if (definitions.python_frames().size() <= 1) return false;  // the first is of none
  while (stack != 0 && definitions.python_frame(definitions.nodes()[stack]) == nullptr) {
    stack = definitions.nodes()[stack].parent;
  }
  return stack != 0;
}

/// Frames outside of ourselves that are no plumbing, innermost first, up to what started the
/// thread. Runs of frames without names are one. If all of it is plumbing, all of it is given.
std::vector<Attribution::Candidate> Attribution::candidates(uint32_t stack, bool until_python) {
  const std::vector<StackNode>& nodes = replay_.log().definitions().nodes();
  std::vector<Candidate> found;
  std::vector<Candidate> whole;
  const auto add = [](std::vector<Candidate>& to, const ResolvedAddress& resolved, size_t i) {
    const Frame& frame = resolved.frames[i];
    const bool unnamed = frame.function.empty();
    const auto of_same_run = [&](size_t back) {
      return unnamed && !frame.module.empty() && to.size() >= back &&
             to[to.size() - back].part.run > 0 &&
             to[to.size() - back].part.frame->module == frame.module;
    };
    if (of_same_run(1) && to.back().part.run > 1) {
      ++to.back().part.run;
      return;
    }
    if (of_same_run(1) && of_same_run(2)) {  // two of them are shown as they are
      to.pop_back();
      to.back().part.run = 3;
      return;
    }
    const uint32_t run = unnamed && !frame.module.empty() ? 1 : 0;
    to.push_back({{&frame, resolved.function_ids[i], run}, false, bool{resolved.landmarks[i]}});
  };
  for (uint32_t node = stack; node != 0; node = nodes[node].parent) {
    const ResolvedAddress& resolved = symbolizer_.resolve(node);
    if (until_python && resolved.frames[0].is_python) break;
    for (size_t i = 0; i < resolved.frames.size(); ++i) {
      const Frame& frame = resolved.frames[i];
      if (!frame.module.starts_with(kOwnModule)) add(whole, resolved, i);
      if (resolved.plumbing[i]) continue;
      if (until_python && is_python_interpreter(frame.module, frame.function)) continue;
      if (!found.empty() && is_start_code(frame.function)) return found;
      add(found, resolved, i);
      found.back().own = !program_.empty() && frame.module == program_ && !frame.function.empty();
    }
  }
  return found.empty() && !until_python ? whole : found;
}

/// A library's frames without names say less than its first one that has a name; those of another
/// library say at least which one it is.
Attribution::Site Attribution::make_native_site(const std::vector<Candidate>& found) const {
  Site site;
  if (found.empty()) return site;
  const std::string& module = found[0].part.frame->module;
  size_t first = 0;
  while (first < found.size() && found[first].part.run > 0 &&
         found[first].part.frame->module == module) {
    ++first;
  }
  if (first == found.size() || found[first].part.frame->module != module) first = 0;
  site.add(found[first].part);
  const auto from = found.begin() + static_cast<ptrdiff_t>(first) + 1;
  const auto landmark =
      std::find_if(from, found.end(), [](const Candidate& c) { return c.landmark; });
  if (landmark != found.end()) site.add(landmark->part);
  // Where the program's own code is further out, its nearest frame is the last of the title.
  const auto own = found[first].own
                       ? found.end()
                       : std::find_if(from, found.end(), [](const Candidate& c) { return c.own; });
  const size_t room = kTitleFrames - (own != found.end() ? 1 : 0);
  for (auto next = from; next != found.end() && next != own && site.frame_count < room; ++next) {
    // Behind a name, frames without one are no help.
    if (next->part.run == 0 || found[first].part.run > 0) site.add(next->part);
  }
  if (own != found.end()) {
    site.add(own->part);
    TitlePart& last = site.parts[site.frame_count - 1];
    last.with_line = last.frame->line > 0;
  }
  return site;
}

/// Where Python's line is known, it says more than the native frames between it and the library
/// that allocates: that library's function, the nearest Python frame, and then, past what lies in
/// installed packages, the program's own.
Attribution::Site Attribution::make_python_site(uint32_t stack) {
  const std::vector<StackNode>& nodes = replay_.log().definitions().nodes();
  Site site;
  std::vector<const ResolvedAddress*> python;
  for (uint32_t node = stack; node != 0; node = nodes[node].parent) {
    const ResolvedAddress& resolved = symbolizer_.resolve(node);
    if (resolved.frames[0].is_python) python.push_back(&resolved);
  }
  const Site leaf = make_native_site(candidates(stack, true));
  if (leaf.frame_count > 0) site.add(leaf.parts[0]);
  const auto add = [&](const ResolvedAddress* resolved) {
    site.add({&resolved->frames[0], resolved->function_ids[0]});
  };
  const auto own = std::find_if(python.begin(), python.end(), [](const ResolvedAddress* resolved) {
    return !is_installed_python(resolved->frames[0].file);
  });
  add(python[0]);
  const auto rest = own == python.end() || own == python.begin() ? python.begin() + 1 : own;
  std::for_each(rest, python.end(), add);
  return site;
}

Attribution::Site Attribution::make_site(uint32_t stack) {
  Site site =
      has_python(stack) ? make_python_site(stack) : make_native_site(candidates(stack, false));
  // A run beside a name goes by its library and length, one on its own by its address.
  for (size_t i = 0; i < site.frame_count; ++i) {
    TitlePart& part = site.parts[i];
    const bool alone = i == 0 && (site.frame_count == 1 || site.parts[1].run > 0);
    if (part.run < 2 || alone) continue;
    part.id = intern(fmt::format("{} {}", part.run, part.frame->module));
  }
  return site;
}

/// `libx.so+0x1234 (4 frames)` where the address is all there is, else `libx.so (4 frames)`.
std::string Attribution::part_title(const TitlePart& part) {
  std::string title = frame_title(*part.frame);
  if (part.run > 0 && part.id >= UINT32_C(1) << 31) title = part.frame->module;
  if (part.run > 1) title += fmt::format(" ({} frames)", part.run);
  if (part.with_line && !part.frame->is_python) {
    const std::string& file = part.frame->file;
    title += fmt::format(" {}:{}", file.substr(file.rfind('/') + 1), part.frame->line);
  }
  return title;
}

std::string Attribution::site_title(uint32_t stack) {
  const Site& named = site(stack);
  if (named.frame_count == 0) return std::string(kNoStack);
  std::string title = part_title(named.parts[0]);
  for (size_t i = 1; i < named.frame_count; ++i) title += " ← " + part_title(named.parts[i]);
  return title;
}

/// With whole names and places, for rows whose titles would be alike.
std::string Attribution::whole_title(const Site& site) {
  std::string title;
  for (size_t i = 0; i < site.frame_count; ++i) {
    const Frame& frame = *site.parts[i].frame;
    title += (i > 0 ? " ← " : "") + frame_name(frame);
    if (frame.is_python) title += fmt::format(":{}", frame.line);
    if (!frame.is_python && !frame.function.empty()) {
      title += fmt::format(" {}+{:#x}", frame.module, frame.offset);
    }
  }
  return title;
}

std::string Attribution::site_module(uint32_t stack) {
  const Site& named = site(stack);
  return named.frame_count == 0 ? "" : named.parts[0].frame->module;
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
  const Site& named = site(replay_.sites().info(group).stack);
  if (named.frame_count == 0) {
    // Without a stack, the call is all there is to tell sites apart.
    return {kind, UINT64_MAX, by_ == GroupBy::kSite ? context.api : 0};
  }
  const Frame& first = *named.parts[0].frame;
  switch (by_) {
    case GroupBy::kModule:
      return {kind, intern(first.module)};
    case GroupBy::kIp:
      if (first.is_python) return {kind, 0, named.parts[0].id, line_of(first)};
      return {kind, first.address};
    case GroupBy::kFunction:
      return {kind, named.parts[0].id};
    default:
      break;
  }
  Key result{kind, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  for (size_t i = 0; i < named.frame_count; ++i) {
    const TitlePart& part = named.parts[i];
    result[i + 1] = part.id;
    // Titles show these lines.
    if (part.frame->is_python || part.with_line) result[i + 1] |= line_of(*part.frame) << 32;
  }
  return result;
}

std::string Attribution::thread_title(uint32_t tid) const {
  const auto name = replay_.thread_names().find(tid);
  if (name == replay_.thread_names().end()) return fmt::format("thread {}", tid);
  return fmt::format("thread {} ({})", tid, replay_.log().definitions().shown(name->second));
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
  const Site& named = site(stack);
  if (named.frame_count == 0) {
    const std::string api = replay_.log().definitions().shown_string(context.api);
    return by_ != GroupBy::kSite || api.empty() ? std::string(kNoStack)
                                                : fmt::format("{} {}", api, kNoStack);
  }
  const Frame& first = *named.parts[0].frame;
  switch (by_) {
    case GroupBy::kModule:
      return first.module.empty() ? "(no module)" : first.module;
    case GroupBy::kFunction:
      if (first.is_python) return frame_name(first);
      return named.parts[0].run > 0 ? part_title(named.parts[0]) : frame_title(first);
    case GroupBy::kIp:
      return first.module.empty() || first.is_python
                 ? frame_title(first)
                 : fmt::format("{} {}+{:#x}", frame_title(first), first.module, first.offset);
    default:
      return site_title(stack);
  }
}

std::optional<std::string> Attribution::phase_name(PhaseId phase) const {
  if (phase == 0) return std::nullopt;
  const Phase& named = replay_.phases().phases()[phase];
  return phase_text(replay_, {named.name, named.source, named.instance});
}

void Attribution::add(Row& row, const Contribution& contribution) const {
  const PeakFinder::Group& group = replay_.peaks().group(contribution.group);
  const GroupInfo& info = replay_.sites().info(contribution.group);
  const SiteContext& context = replay_.sites().context_of(contribution.group);
  if (!row.any) {
    row.any = true;
    row.largest = contribution;
  } else {
    const SiteContext& other = replay_.sites().context_of(row.largest.group);
    row.same_api &= other.api == context.api;
    row.same_phase &= other.phase == context.phase;
    row.same_thread &= other.tid == context.tid;
    if (contribution.bytes > row.largest.bytes) row.largest = contribution;
  }
  row.bytes += contribution.bytes;
  row.count += contribution.count;
  if (context.sampled) row.sampled_count += contribution.count;
  row.alloc_count += group.alloc_count;
  row.temporary_count += info.temporary_count;
  row.longest_life_ticks = std::max(row.longest_life_ticks, info.longest_life_ticks);
}

Holder Attribution::make_holder(const Row& row, bool with_stack) {
  const GroupId group = row.largest.group;
  const SiteContext& context = replay_.sites().context_of(group);
  const GroupInfo& info = replay_.sites().info(group);
  const Site& named = site(info.stack);
  Holder holder;
  holder.title = title(group);
  holder.kind = kind_path(context.kind);
  holder.bytes = row.bytes;
  holder.count = row.count;
  if (row.sampled_count > 0) holder.error_bytes = replay_.heap().sampling_error(row.sampled_count);
  if (row.same_api) holder.api = replay_.log().definitions().shown_string(context.api);
  if (named.frame_count > 0) holder.module = named.parts[0].frame->module;
  if (row.same_phase) holder.phase = phase_name(context.phase);
  if (row.same_thread) holder.thread_id = context.tid;
  if (with_stack) holder.stack = symbolizer_.stack(info.stack);
  // The last block of a thread counts as temporary too, however long it lived: no mark for heap
  // rows.
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

uint32_t Attribution::row_of(GroupId group) {
  if (group >= row_of_group_.size()) row_of_group_.resize(replay_.sites().group_count(), kNoRow);
  uint32_t& row = row_of_group_[group];
  if (row == kNoRow) {
    row = rows_.try_emplace(key(group), static_cast<uint32_t>(rows_.size())).first->second;
  }
  return row;
}

HolderTable Attribution::table(const std::vector<Contribution>& contributions, size_t top,
                               bool with_stacks) {
  std::vector<Row> rows;
  for (const Contribution& contribution : contributions) {
    const uint32_t number = row_of(contribution.group);
    if (number >= place_of_row_.size()) place_of_row_.resize(rows_.size(), kNoRow);
    uint32_t& place = place_of_row_[number];
    if (place == kNoRow) {
      place = static_cast<uint32_t>(rows.size());
      rows.emplace_back().number = number;
    }
    add(rows[place], contribution);
  }
  for (const Row& row : rows) place_of_row_[row.number] = kNoRow;
  std::vector<const Row*> order;
  order.reserve(rows.size());
  for (const Row& row : rows) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(), [](const Row* a, const Row* b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->count > b->count;
  });
  HolderTable table;
  uint64_t sampled_count = 0;
  for (const Row* row : order) sampled_count += row->sampled_count;
  if (sampled_count > 0) table.error_bytes = replay_.heap().sampling_error(sampled_count);
  for (size_t i = 0; i < order.size(); ++i) {
    if (i < top) {
      table.rows.push_back(make_holder(*order[i], with_stacks));
    } else {
      table.other_bytes += order[i]->bytes;
      ++table.other_rows;
    }
  }
  tell_apart(table.rows, order);
  return table;
}

/// Rows whose short titles are alike get whole ones.
void Attribution::tell_apart(std::vector<Holder>& rows, const std::vector<const Row*>& order) {
  if (by_ != GroupBy::kSite) return;
  std::unordered_map<std::string, size_t> counts;
  for (const Holder& row : rows) ++counts[row.kind + row.title];
  for (size_t i = 0; i < rows.size(); ++i) {
    if (counts[rows[i].kind + rows[i].title] < 2) continue;
    const Site& named = site(replay_.sites().info(order[i]->largest.group).stack);
    if (named.frame_count > 0) rows[i].title = whole_title(named);
  }
}

}  // namespace gpupeak::collector
