#include <fmt/format.h>

#include <map>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/log/parallel.h"
#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

constexpr uint32_t kFirstInterned = UINT32_C(1) << 31;

SiteTitles::SiteTitles(const Definitions& definitions, Symbolizer& symbolizer)
    : definitions_(definitions), symbolizer_(symbolizer) {
  program_ = escape(file_name(definitions.fact("exe")));
  const size_t nodes = std::max<size_t>(definitions.nodes().size(), 1);
  most_frames_ = std::max(kAlwaysLookedAt, kMostLookedAt / nodes);
}

/// Numbers for what is no function begin at kFirstInterned, above those of functions.
uint32_t SiteTitles::intern(const std::string& text) {
  return kFirstInterned + interned_.of(text);
}

const SiteTitles::Site& SiteTitles::site(uint32_t stack) {
  if (stack >= of_stack_.size()) of_stack_.resize(definitions_.nodes().size());
  if (of_stack_[stack] == 0) keep(stack, make_site(stack, scratch_));
  return sites_[of_stack_[stack] - 1];
}

void SiteTitles::tell_calls_apart(std::set<uint32_t> functions, CallNumbers numbers) {
  symbolizer_.tell_calls_apart(std::move(functions), std::move(numbers));
  of_stack_.clear();
}

void SiteTitles::prepare(std::span<const uint32_t> stacks) {
  constexpr size_t kWorthThreads = 256;
  constexpr size_t kPiece = 64;
  constexpr size_t kBlock = size_t{1} << 14;
  constexpr uint32_t kWanted = UINT32_MAX;
  of_stack_.resize(definitions_.nodes().size());
  std::vector<uint32_t> unknown;
  for (const uint32_t stack : stacks) {
    if (of_stack_[stack] != 0) continue;
    of_stack_[stack] = kWanted;  // marks it, since tables name a stack many times
    unknown.push_back(stack);
  }
  for (const uint32_t stack : unknown) of_stack_[stack] = 0;
  if (unknown.size() < kWorthThreads) return;
  std::ranges::sort(unknown);
  symbolizer_.resolve_all(unknown);
  std::vector<Site> made(std::min(kBlock, unknown.size()));
  for (size_t from = 0; from < unknown.size(); from += kBlock) {
    const auto block = std::span(unknown).subspan(from, std::min(kBlock, unknown.size() - from));
    in_parallel(block.size(), kPiece, [&](size_t begin, size_t end) {
      Candidates scratch;
      for (size_t i = begin; i < end; ++i) made[i] = make_site(block[i], scratch);
    });
    for (size_t i = 0; i < block.size(); ++i) keep(block[i], made[i]);
  }
}

void SiteTitles::keep(uint32_t stack, Site site) {
  // A run of frames beside a name is told apart by its library and length; one on its own by its
  // address.
  for (size_t i = 0; i < site.frame_count; ++i) {
    TitlePart& part = site.parts[i];
    const bool alone = i == 0 && (site.frame_count == 1 || site.parts[1].run > 0);
    if (part.run < 2 || alone) continue;
    part.id = intern(fmt::format("{} {}", part.run, part.frame->module));
  }
  of_stack_[stack] = sites_.of(site) + 1;
}

size_t SiteTitles::SiteHash::operator()(const Site& site) const {
  uint64_t mixed = 0;
  for (size_t i = 0; i < site.frame_count; ++i) {
    const TitlePart& part = site.parts[i];
    const uint64_t rest = uint64_t{part.run + part.place} << 32 | part.id;
    mixed = (mixed ^ reinterpret_cast<uintptr_t>(part.frame)) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 32 ^ rest) * UINT64_C(0x9e3779b97f4a7c15);
    mixed ^= mixed >> 32;
  }
  return mixed;
}

void SiteTitles::Site::add(const TitlePart& part) {
  if (frame_count == kTitleFrames) return;
  // A compiler may split a function into two that call each other.
  if (frame_count > 0 && parts[frame_count - 1].id == part.id) return;
  parts[frame_count++] = part;
}

bool SiteTitles::has_python(uint32_t stack) const {
  if (definitions_.python_frames().size() <= 1) return false;  // the first is no frame
  size_t left = most_frames_;
  for (; stack != 0 && left > 0; stack = definitions_.nodes()[stack].parent, --left) {
    if (definitions_.python_frame(definitions_.nodes()[stack]) != nullptr) return true;
  }
  return false;
}

/// Adds a frame. Frames in a row without names become one part.
void SiteTitles::add(Candidates& to, const ResolvedAddress& resolved, size_t i) {
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
  if (of_same_run(1) && of_same_run(2)) {  // up to two of them are shown as they are
    to.pop_back();
    to.back().part.run = 3;
    return;
  }
  const uint32_t run = unnamed && !frame.module.empty() ? 1 : 0;
  to.push_back({{&frame, resolved.function_ids[i], resolved.place_ids[i], run},
                false,
                resolved.roles[i].landmark});
}

/// Finds the frames that are neither ours nor plumbing, innermost first, up to what started the
/// thread. If all of a stack is plumbing, it gives all of it.
void SiteTitles::find_candidates(uint32_t stack, bool until_python, Candidates& found) const {
  const std::vector<StackNode>& nodes = definitions_.nodes();
  found.clear();
  size_t left = most_frames_;
  // The innermost part of a runtime, by rule. It stands for code that the runtime made and nobody
  // named: such addresses say nothing, and differ from call to call.
  const ResolvedAddress* runtime = nullptr;
  size_t runtime_frame = 0;
  for (uint32_t node = stack; node != 0 && left > 0; node = nodes[node].parent, --left) {
    const ResolvedAddress& resolved = symbolizer_.resolve(node);
    if (until_python && resolved.frames[0].is_python) break;
    for (size_t i = 0; i < resolved.frames.size(); ++i) {
      const FrameRole& role = resolved.roles[i];
      if (!found.empty() && role.start) return;
      const Frame& frame = resolved.frames[i];
      if (role.plumbing && !role.landmark) {
        if (runtime == nullptr && !frame.function.empty() &&
            !is_plumbing(frame.module, frame.function)) {
          runtime = &resolved;
          runtime_frame = i;
        }
        continue;
      }
      if (until_python && role.interpreter) continue;
      const bool is_bare = frame.function.empty() && frame.module.empty();
      if (is_bare && runtime != nullptr) {
        if (found.empty()) add(found, *runtime, runtime_frame);
        continue;
      }
      add(found, resolved, i);
      const bool is_made = frame.name_source == NameSource::kPerfMap;
      found.back().own =
          is_made ? !is_installed_script(frame.file)
                  : !program_.empty() && frame.module == program_ && !frame.function.empty();
    }
  }
  if (found.empty() && !until_python) take_all_frames(stack, found);
}

void SiteTitles::take_all_frames(uint32_t stack, Candidates& found) const {
  const std::vector<StackNode>& nodes = definitions_.nodes();
  size_t left = most_frames_;
  for (uint32_t node = stack; node != 0 && left > 0; node = nodes[node].parent, --left) {
    const ResolvedAddress& resolved = symbolizer_.resolve(node);
    for (size_t i = 0; i < resolved.frames.size(); ++i) {
      if (!resolved.frames[i].module.starts_with(kOwnModule)) add(found, resolved, i);
    }
  }
}

/// A library's first frame with a name says more than its frames without one. Frames of another
/// library without names say at least which library it is.
SiteTitles::Site SiteTitles::make_native_site(const Candidates& found) {
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
  // If the program's own code is further out, its nearest frame is the last of the title.
  const auto own = found[first].own
                       ? found.end()
                       : std::find_if(from, found.end(), [](const Candidate& c) { return c.own; });
  const size_t room = kTitleFrames - (own != found.end() ? 1 : 0);
  for (auto next = from; next != found.end() && next != own && site.frame_count < room; ++next) {
    // Behind a frame with a name, frames without one do not help.
    if (next->part.run == 0 || found[first].part.run > 0) site.add(next->part);
  }
  if (own != found.end()) site.add(own->part);
  return site;
}

/// Python's line says more than the native frames between it and the library that allocates. So the
/// title has that library's function, the nearest Python frame, and then, past installed packages,
/// the program's own Python frames. What calls these is an installed package's business.
SiteTitles::Site SiteTitles::make_python_site(uint32_t stack, Candidates& scratch) const {
  const std::vector<StackNode>& nodes = definitions_.nodes();
  Site site;
  std::vector<const ResolvedAddress*> python, plumbing;
  size_t left = most_frames_;
  for (uint32_t node = stack; node != 0 && left > 0; node = nodes[node].parent, --left) {
    const ResolvedAddress& resolved = symbolizer_.resolve(node);
    if (resolved.frames[0].is_python)
      (resolved.roles[0].plumbing ? plumbing : python).push_back(&resolved);
  }
  if (python.empty()) python = plumbing;
  find_candidates(stack, true, scratch);
  const Site leaf = make_native_site(scratch);
  if (leaf.frame_count > 0) site.add(leaf.parts[0]);
  const auto add = [&](const ResolvedAddress* resolved) {
    site.add({&resolved->frames[0], resolved->function_ids[0], resolved->place_ids[0]});
  };
  const auto is_own = [](const ResolvedAddress* resolved) {
    return !is_installed_script(resolved->frames[0].file);
  };
  const auto own = std::ranges::find_if(python, is_own);
  add(python[0]);
  auto next = own == python.end() || own == python.begin() ? python.begin() + 1 : own;
  for (; next != python.end() && (own == python.end() || is_own(*next)); ++next) add(*next);
  return site;
}

SiteTitles::Site SiteTitles::make_site(uint32_t stack, Candidates& scratch) const {
  if (has_python(stack)) return make_python_site(stack, scratch);
  find_candidates(stack, false, scratch);
  return make_native_site(scratch);
}

std::vector<SitePart> SiteTitles::parts(const Site& site) {
  std::vector<SitePart> parts;
  for (size_t i = 0; i < site.frame_count; ++i) {
    const TitlePart& part = site.parts[i];
    parts.push_back({*part.frame, part.run, part.run > 0 && part.id >= kFirstInterned});
  }
  return parts;
}

std::string SiteTitles::title(uint32_t stack) {
  return site_title(parts(site(stack)));
}

std::string SiteTitles::module(uint32_t stack) {
  const Site& named = site(stack);
  return named.frame_count == 0 ? "" : named.parts[0].frame->module;
}

namespace {

constexpr uint64_t kLargeShare = 20;  // of a peak: 5 %
constexpr uint64_t kLargeOfHeap = UINT64_C(1) << 20;

class CallSites {
 public:
  CallSites(const Replay& replay, SiteTitles& titles) : replay_(replay), titles_(titles) {}

  void tell_apart(bool of_host) {
    const SiteTable& sites = replay_.sites();
    for (ScopeId id{}; id < sites.scopes().size(); ++id) {
      if (of_host || sites.scopes()[id].name.starts_with("device")) look_at(id);
    }
    if (functions_.empty()) return;
    for (GroupId group{0}; group < sites.group_count(); ++group) {
      const uint8_t kind = sites.context_of(group).kind;
      if (kind == GPUPEAK_KIND_HEAP || (is_mapping(kind) && !of_host)) continue;
      note(group, is_mapping(kind) ? mappings_ : buffers_);
    }
    for (const uint32_t stack : in_arenas_) note(stack, 2, buffers_);
    for (const GroupId group : heap_) note(group, heap_calls_);
    for (const Calls* calls : {&buffers_, &mappings_, &heap_calls_}) number(*calls);
    titles_.tell_calls_apart(std::move(functions_), std::move(calls_));
  }

 private:
  using Calls = std::map<std::pair<uint32_t, uint64_t>, uint64_t>;  // to how many blocks they took
  /// By kind and what a row's title has; of calls that are told apart the address.
  using Row = std::array<uint64_t, SiteTitles::kTitleFrames + 1>;
  using Sites = std::map<std::pair<const SiteTitles::Site*, uint8_t>, uint64_t>;  // to their bytes

  /// A program's first call of the driver makes mappings for the context, whatever it asks for.
  static bool is_mapping(uint8_t kind) {
    return kind == GPUPEAK_KIND_MMAP_ANON || kind == GPUPEAK_KIND_MMAP_FILE ||
           kind == GPUPEAK_KIND_BACKING || kind == GPUPEAK_KIND_DRIVER;
  }

  static bool has_no_line(const SiteTitles::TitlePart& part) {
    return part.frame != nullptr && part.place == 0 && part.run == 0 && !part.frame->is_python &&
           part.frame->name_source != NameSource::kPerfMap && !part.frame->function.empty() &&
           part.frame->address != 0;
  }

  void look_at(ScopeId scope) {
    const uint64_t peak = replay_.peaks().scope(scope).peak;
    if (peak == 0) return;
    const PeakParts parts = parts_at_peak(replay_, scope);
    titles_.prepare(list_of(parts.outside, [&](const Contribution& part) {
      return replay_.sites().info(part.group).stack;
    }));
    Sites held;
    for (const Contribution& part : parts.outside) {
      const uint32_t stack = replay_.sites().info(part.group).stack;
      const uint8_t kind = replay_.sites().context_of(part.group).kind;
      held[{&titles_.site(stack), kind}] += part.bytes;
      if (kind == GPUPEAK_KIND_HEAP) heap_.insert(part.group);
    }
    for (const ArenaPart& part : parts.in_arenas) {
      if (part.holder->what != ArenaTable::What::kInUse || part.holder->name != 0) continue;
      held[{&titles_.site(part.holder->stack), GPUPEAK_KIND_NONE}] += part.bytes;
      in_arenas_.insert(part.holder->stack);
    }
    for (size_t part = 0; part < SiteTitles::kTitleFrames; ++part) look_at(held, part, peak);
  }

  /// Looks for rows of which this part hides several calls of a function that hold much.
  void look_at(const Sites& held, size_t part, uint64_t peak) {
    std::map<Row, std::map<uint64_t, uint64_t>> rows;  // to bytes by address
    for (const auto& [site, bytes] : held) {
      const auto& [named, kind] = site;
      if (part >= named->frame_count || !has_no_line(named->parts[part])) continue;
      Row row{kind};
      for (size_t i = 0; i < named->frame_count; ++i) {
        const SiteTitles::TitlePart& one = named->parts[i];
        const bool apart = i < part && has_no_line(one) && functions_.contains(one.id);
        row[i + 1] = apart ? one.frame->address : uint64_t{one.place} << 32 | one.id;
      }
      rows[row][named->parts[part].frame->address] += bytes;
      ids_[row] = named->parts[part].id;
    }
    for (const auto& [row, calls] : rows) {
      size_t large = 0;
      for (const auto& [address, bytes] : calls) {
        const bool counts = row[0] != GPUPEAK_KIND_HEAP || bytes >= kLargeOfHeap;
        large += counts && bytes >= peak / kLargeShare;
      }
      if (large > 1) functions_.insert(ids_[row]);
    }
    ids_.clear();
  }

  void note(uint32_t stack, uint64_t blocks, Calls& calls) {
    const SiteTitles::Site& site = titles_.site(stack);
    for (size_t i = 0; i < site.frame_count; ++i) {
      const SiteTitles::TitlePart& part = site.parts[i];
      if (!has_no_line(part) || !functions_.contains(part.id)) continue;
      // Who calls a function that takes the memory is no buffer, however often it calls.
      calls[{part.id, part.frame->address}] += i == 0 ? blocks : 2;
    }
  }

  void note(GroupId group, Calls& calls) {
    note(replay_.sites().info(group).stack, replay_.peaks().group(group).alloc_count, calls);
  }

  void number(const Calls& calls) {
    for (const auto& [call, blocks] : calls) {
      uint32_t& last = last_[call.first];
      if (calls_.try_emplace(call, CallNumber{last + 1, blocks == 1}).second) ++last;
    }
  }

  const Replay& replay_;
  SiteTitles& titles_;
  std::set<uint32_t> functions_;  ///< whose calls are told apart
  std::map<Row, uint32_t> ids_;
  std::set<uint32_t> in_arenas_;  ///< stacks
  std::set<GroupId> heap_;
  Calls buffers_, mappings_, heap_calls_;
  std::map<uint32_t, uint32_t> last_;  ///< numbers by function
  CallNumbers calls_;
};

}  // namespace

void tell_calls_apart(const Replay& replay, SiteTitles& titles, bool of_host) {
  if (!titles.symbolizer().tells_calls_apart()) CallSites(replay, titles).tell_apart(of_host);
}

}  // namespace gpupeak::collector
