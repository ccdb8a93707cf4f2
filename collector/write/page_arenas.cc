#include "collector/write/page_arenas.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "collector/write/page_series.h"

namespace gpupeak::collector {
namespace {

class PageArenas {
 public:
  PageArenas(const ArenaHistory& history, const std::function<uint32_t(const std::string&)>& string)
      : history_(history), string_(string), levels_(history.arenas.size()) {
    base_ = UINT64_MAX;
    for (const auto& segment : history.segments) base_ = std::min(base_, segment.begin);
    for (const auto& block : history.blocks) base_ = std::min(base_, block.address);
    for (const auto& run : history.several) {
      if (run.end > 0) base_ = std::min(base_, run.begin);
    }
  }

  Json make(const TimeSeries& times) {
    Json json = {{"every", history_.every}, {"base", fmt::format("{:#x}", base_)}};
    json["list"] = Json::array();
    for (const ArenaHistory::Arena& arena : history_.arenas)
      json["list"].push_back(arena_json(arena, times));
    json["rows"] = Json::array();
    for (const std::string& row : history_.rows) json["rows"].push_back(string_(row));
    steps(json);
    json["segments"] = segments();
    json["blocks"] = blocks();
    if (!history_.uses.empty()) json["uses"] = uses();
    json["several"] = several();
    json["holes"] = holes();
    json["levels"] = levels();
    return json;
  }

 private:
  Json arena_json(const ArenaHistory::Arena& arena, const TimeSeries& times) const {
    Json json = {{"name", arena.name},
                 {"place", arena.place},
                 {"peak", arena.peak},
                 {"peak_ns", arena.peak_ns},
                 {"reserved_peak", arena.reserved_peak},
                 {"largest_block", arena.largest_block},
                 {"largest_refused", arena.largest_refused},
                 {"has_older", arena.has_older}};
    if (history_.every) return json;
    if (const Series* series = times.arena_in_use(arena.arena)) {
      json["in_use"] = {{"changes", series_changes(*series)}};
    }
    if (const Series* series = times.pool_reserved(arena.arena)) {
      json["reserved"] = {{"changes", series_changes(*series)}};
    }
    return json;
  }

  void steps(Json& json) const {
    json["times"] = Json::array();
    json["reasons"] = Json::array();
    int64_t last = 0;
    for (size_t i = 0; i < history_.steps.size(); ++i) {
      const ArenaHistory::Step& step = history_.steps[i];
      json["times"].push_back(step.time_ns - last);
      last = step.time_ns;
      if (!step.reason.empty()) json["reasons"].push_back({i, string_(step.reason)});
    }
  }

  /// Steps since `last`, which then becomes `step`.
  static int64_t further(uint32_t step, uint32_t& last) {
    const int64_t by = int64_t{step} - last;
    last = step;
    return by;
  }

  Json segments() const {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Segment& segment : history_.segments) {
      flat.push_back(segment.arena);
      flat.push_back(segment.begin - base_);
      flat.push_back(segment.bytes);
      flat.push_back(segment.captured ? 1 : 0);
      flat.push_back(further(segment.first, last));
      flat.push_back(segment.end - segment.first);
    }
    return flat;
  }

  Json blocks() const {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Block& block : history_.blocks) {
      if (block.end == block.first) continue;  // it came and went within one step
      const bool alone = block.segment == ArenaHistory::Block::kAlone;
      flat.push_back(alone ? -1 - int64_t{block.arena} : int64_t{block.segment});
      flat.push_back(block.address - (alone ? base_ : history_.segments[block.segment].begin));
      flat.push_back(block.bytes);
      flat.push_back(block.row);
      flat.push_back(further(block.first, last));
      flat.push_back(block.end - block.first);
    }
    return flat;
  }

  /// For each block in blocks(): -1 (not known), 0 (not seen used), or 1 and four times in ns: the
  /// first use since the block's first step; since the first use, the last one and the begin of the
  /// longest while without use; the length of that while.
  Json uses() const {
    Json flat = Json::array();
    for (size_t i = 0; i < history_.blocks.size(); ++i) {
      const ArenaHistory::Block& block = history_.blocks[i];
      const ArenaHistory::Uses& uses = history_.uses[i];
      if (block.end == block.first) continue;
      if (!uses.is_known || uses.count == 0) {
        flat.push_back(uses.is_known ? 0 : -1);
        continue;
      }
      flat.push_back(1);
      flat.push_back(uses.first_ns - history_.steps[block.first].time_ns);
      flat.push_back(uses.last_ns - uses.first_ns);
      flat.push_back(uses.idle_since_ns - uses.first_ns);
      flat.push_back(uses.idle_ns);
    }
    return flat;
  }

  Json several() const {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Several& run : history_.several) {
      flat.push_back(further(run.step, last));
      flat.push_back(run.arena);
      flat.push_back(run.end > 0 ? run.begin - base_ : 0);
      flat.push_back(run.end - run.begin);
      flat.push_back(run.bytes);
      flat.push_back(run.count);
    }
    return flat;
  }

  Json holes() const {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Holes& holes : history_.holes) {
      flat.push_back(further(holes.step, last));
      flat.push_back(holes.arena);
      flat.push_back(holes.largest);
      flat.push_back(holes.below_block);
      flat.push_back(holes.below_refused);
      flat.push_back(holes.left_out_segments);
      flat.push_back(holes.left_out_bytes);
    }
    return flat;
  }

  Json levels() {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Level& level : history_.levels) {
      ArenaHistory::Level& before = levels_[level.arena];
      flat.push_back(further(level.step, last));
      flat.push_back(level.arena);
      flat.push_back(static_cast<int64_t>(level.in_use - before.in_use));
      flat.push_back(static_cast<int64_t>(level.reserved - before.reserved));
      before = level;
    }
    return flat;
  }

  const ArenaHistory& history_;
  const std::function<uint32_t(const std::string&)>& string_;
  uint64_t base_;
  std::vector<ArenaHistory::Level> levels_;  // by arena: its last level so far
};

}  // namespace

Json page_arenas(const ArenaHistory& history, const TimeSeries& times,
                 const std::function<uint32_t(const std::string&)>& string) {
  if (history.arenas.empty()) return nullptr;
  return PageArenas(history, string).make(times);
}

}  // namespace gpupeak::collector
