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
  if (name == "site") return GroupBy::kSite;
  if (name == "function") return GroupBy::kFunction;
  if (name == "module") return GroupBy::kModule;
  if (name == "phase") return GroupBy::kPhase;
  if (name == "tag") return GroupBy::kTag;
  if (name == "kind") return GroupBy::kKind;
  if (name == "thread") return GroupBy::kThread;
  if (name == "ip") return GroupBy::kIp;
  throw UsageError(fmt::format(
      "cannot group by '{}': choose site, function, module, phase, tag, kind, thread or ip",
      sanitize(name)));
}

std::string_view group_by_name(GroupBy by) {
  switch (by) {
    case GroupBy::kSite:
      return "site";
    case GroupBy::kFunction:
      return "function";
    case GroupBy::kModule:
      return "module";
    case GroupBy::kPhase:
      return "phase";
    case GroupBy::kTag:
      return "tag";
    case GroupBy::kKind:
      return "kind";
    case GroupBy::kThread:
      return "thread";
    case GroupBy::kIp:
      return "ip";
  }
  return "";
}

Attribution::Attribution(const Replay& replay, Symbolizer& symbolizer, GroupBy by, Tagger* tagger)
    : replay_(replay), symbolizer_(symbolizer), by_(by), tagger_(tagger) {}

const Attribution::Site& Attribution::site(uint32_t stack) {
  const auto known = sites_.find(stack);
  if (known != sites_.end()) return known->second;
  return sites_.emplace(stack, make_site(stack)).first->second;
}

void Attribution::Site::add(const ResolvedAddress& resolved, size_t i) {
  if (frame_count == kTitleFrames) return;
  // A compiler may split a function in two that call each other.
  if (frame_count > 0 && function_ids[frame_count - 1] == resolved.function_ids[i]) return;
  frames[frame_count] = &resolved.frames[i];
  function_ids[frame_count++] = resolved.function_ids[i];
}

bool Attribution::has_python(uint32_t stack) const {
  const Definitions& definitions = replay_.log().definitions();
  if (definitions.python_frames().size() <= 1) return false;  // the first is of none
  while (stack != 0 && definitions.python_frame(definitions.nodes()[stack]) == nullptr) {
    stack = definitions.nodes()[stack].parent;
  }
  return stack != 0;
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
    for (size_t i = 0; i < resolved.frames.size(); ++i) {
      const Frame& frame = resolved.frames[i];
      const bool is_leaf = python.empty() && site.frame_count == 0 && !resolved.plumbing[i] &&
                           !is_python_interpreter(frame.module, frame.function);
      if (is_leaf) site.add(resolved, i);
    }
  }
  const auto own = std::find_if(python.begin(), python.end(), [](const ResolvedAddress* resolved) {
    return !is_installed_python(resolved->frames[0].file);
  });
  site.add(*python[0], 0);
  const auto rest = own == python.end() || own == python.begin() ? python.begin() + 1 : own;
  std::for_each(rest, python.end(),
                [&](const ResolvedAddress* resolved) { site.add(*resolved, 0); });
  return site;
}

Attribution::Site Attribution::make_site(uint32_t stack) {
  if (has_python(stack)) return make_python_site(stack);
  const std::vector<StackNode>& nodes = replay_.log().definitions().nodes();
  Site site;
  Site whole;  // in case that all of it is plumbing: the innermost frames outside of ourselves
  for (uint32_t node = stack; node != 0 && site.frame_count < kTitleFrames;
       node = nodes[node].parent) {
    const ResolvedAddress& resolved = symbolizer_.resolve(node);
    for (size_t i = 0; i < resolved.frames.size(); ++i) {
      if (!resolved.frames[i].module.starts_with(kOwnModule)) whole.add(resolved, i);
      if (resolved.plumbing[i]) continue;
      if (site.frame_count > 0 && is_start_code(resolved.frames[i].function)) return site;
      site.add(resolved, i);
    }
  }
  return site.frame_count > 0 ? site : whole;
}

std::string Attribution::site_title(uint32_t stack) {
  const Site& named = site(stack);
  if (named.frame_count == 0) return std::string(kNoStack);
  std::string title = frame_title(*named.frames[0]);
  for (size_t i = 1; i < named.frame_count; ++i) title += " ← " + frame_title(*named.frames[i]);
  return title;
}

std::string Attribution::site_module(uint32_t stack) {
  const Site& named = site(stack);
  return named.frame_count == 0 ? "" : named.frames[0]->module;
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
  const Frame& first = *named.frames[0];
  switch (by_) {
    case GroupBy::kModule:
      return {kind, std::hash<std::string>{}(first.module)};
    case GroupBy::kIp:
      if (first.is_python) return {kind, 0, named.function_ids[0], line_of(first)};
      return {kind, first.address};
    case GroupBy::kFunction:
      return {kind, named.function_ids[0]};
    default:
      break;
  }
  Key result{kind, named.function_ids[0], line_of(first), UINT64_MAX, UINT64_MAX};
  for (size_t i = 1; i < named.frame_count; ++i) {
    result[i + 2] = named.function_ids[i];
    // Titles show the line of a Python frame.
    if (named.frames[i]->is_python) result[i + 2] |= line_of(*named.frames[i]) << 32;
  }
  return result;
}

std::string Attribution::thread_title(uint32_t tid) const {
  const auto name = replay_.thread_names().find(tid);
  if (name == replay_.thread_names().end()) return fmt::format("thread {}", tid);
  return fmt::format("thread {} ({})", tid, sanitize(name->second));
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
    const std::string api = sanitize(replay_.log().definitions().string(context.api));
    return by_ != GroupBy::kSite || api.empty() ? std::string(kNoStack)
                                                : fmt::format("{} {}", api, kNoStack);
  }
  const Frame& first = *named.frames[0];
  switch (by_) {
    case GroupBy::kModule:
      return first.module.empty() ? "(no module)" : first.module;
    case GroupBy::kFunction:
      return first.is_python ? frame_name(first) : frame_title(first);
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
  std::string name = sanitize(replay_.name(named.name));
  if (named.source != GPUPEAK_PHASE_NVTX || named.instance == 0) return name;
  const std::string domain =
      sanitize(replay_.log().definitions().string(static_cast<uint32_t>(named.instance)));
  return domain + ":" + name;
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
  if (row.sampled_count > 0) holder.error_bytes = replay_.sampling_error(row.sampled_count);
  if (row.same_api) holder.api = sanitize(replay_.log().definitions().string(context.api));
  if (named.frame_count > 0) holder.module = named.frames[0]->module;
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
  if (sampled_count > 0) table.error_bytes = replay_.sampling_error(sampled_count);
  for (size_t i = 0; i < order.size(); ++i) {
    if (i < top) {
      table.rows.push_back(make_holder(*order[i], with_stacks));
    } else {
      table.other_bytes += order[i]->bytes;
      ++table.other_rows;
    }
  }
  return table;
}

}  // namespace gpupeak::collector
