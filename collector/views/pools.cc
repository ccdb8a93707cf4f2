#include "collector/views/pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMapColumns = 64;
constexpr size_t kAddressColumns = 14;

/// Takes what was there after so many events; what follows is replayed for nothing, which keeps the
/// sums whole.
class Snapshot : public ReplayObserver {
 public:
  Snapshot(uint64_t at, std::vector<PoolState>& states) : at_(at), states_(states) {}
  void after(const Event& /*event*/) override {
    if (++events_ == at_) take(replay().arenas(), states_);
  }
  static void take(const ArenaTable& table, std::vector<PoolState>& states) {
    states.assign(table.arenas().size(), {});
    for (size_t arena = 0; arena < states.size(); ++arena) {
      states[arena].level = table.level(arena);
      states[arena].largest_idle = table.largest_idle(arena);
    }
    table.for_each_segment([&](size_t arena, uint64_t begin, uint64_t end) {
      states[arena].segments.push_back({begin, end});
    });
    table.for_each_block(
        [&](size_t arena, uint64_t address, uint64_t bytes, const ArenaTable::Holder& holder) {
          states[arena].blocks.push_back({address, bytes, holder.name, holder.stack});
        });
    for (PoolState& state : states) {
      std::sort(state.blocks.begin(), state.blocks.end(),
                [](const auto& a, const auto& b) { return a.address < b.address; });
    }
  }

 private:
  const uint64_t at_;
  std::vector<PoolState>& states_;
  uint64_t events_ = 0;
};

std::string place_text(int32_t place) {
  if (place == ArenaAccounts::kNowhere) return "";
  if (place == ArenaAccounts::kHost) return " on the host";
  return fmt::format(" on GPU {}", place);
}

std::string pool_text(const Profile& profile, const ArenaTable::Arena& arena) {
  return profile.definitions().shown(profile.replay().name(arena.name)) + place_text(arena.place);
}

std::string block_title(Profile& profile, const PoolBlock& block) {
  return block.name != 0 ? profile.definitions().shown(profile.replay().name(block.name))
                         : profile.sites().site_title(block.stack);
}

/// A column is a 64th of the segment: full, partly used or idle.
std::string segment_map(const PoolSegment& segment, const std::vector<PoolBlock>& blocks,
                        size_t columns) {
  const uint64_t bytes = segment.end - segment.begin;
  std::vector<uint64_t> used(columns, 0);
  const auto column_begin = [&](size_t column) {  // no log has a block of 2^57 bytes
    return segment.begin + bytes * column / columns;
  };
  auto block = std::lower_bound(blocks.begin(), blocks.end(), segment.begin,
                                [](const PoolBlock& a, uint64_t at) { return a.address < at; });
  if (block != blocks.begin() &&
      std::prev(block)->address + std::prev(block)->bytes > segment.begin) {
    --block;
  }
  size_t first = 0;
  for (; block != blocks.end() && block->address < segment.end; ++block) {
    const uint64_t end = block->address + block->bytes;
    while (first + 1 < columns && column_begin(first + 1) <= block->address) ++first;
    for (size_t column = first; column < columns && column_begin(column) < end; ++column) {
      const uint64_t from = std::max(block->address, column_begin(column));
      const uint64_t to = std::min(end, column_begin(column + 1));
      if (to > from) used[column] += to - from;
    }
  }
  std::string map;
  for (size_t column = 0; column < columns; ++column) {
    const uint64_t room = column_begin(column + 1) - column_begin(column);
    map += used[column] == 0 ? "·" : used[column] >= room ? "█" : "▒";
  }
  return map;
}

struct SiteRow {
  uint64_t bytes = 0, count = 0;
};

}  // namespace

void PoolMoments::after(const Event& event) {
  ++events_;
  const ArenaTable& table = replay().arenas();
  if (event.tag == GPUPEAK_REC_MARK && marks_.size() < kMaxMarks && !replay().marks().empty()) {
    AtMark& mark = marks_.emplace_back();
    mark.events = events_;
    mark.ticks = event.ticks;
    mark.name = replay().marks().back().name;
    for (size_t arena = 0; arena < table.arenas().size(); ++arena) {
      mark.levels.push_back(table.level(arena));
    }
  }
  if (event.tag != GPUPEAK_REC_ARENA_ALLOC) return;
  peaks_.resize(table.arenas().size());
  for (size_t arena = 0; arena < peaks_.size(); ++arena) {
    const uint64_t peak = table.peaks().scope(table.arenas()[arena].scope).peak;
    if (peak > peaks_[arena].first) peaks_[arena] = {peak, events_};
  }
}

PoolInstant pool_instant(const Profile& profile, const PoolMoments& moments,
                         const std::string& at) {
  const ArenaTable& table = profile.replay().arenas();
  if (at == "end" || table.arenas().empty()) {
    return {PoolInstant::kEnd, profile.to_ns(profile.replay().last_ticks()), "the end"};
  }
  if (at == "peak") {
    size_t largest = 0;
    for (size_t arena = 1; arena < table.arenas().size(); ++arena) {
      const auto peak = [&](size_t of) {
        return table.peaks().scope(table.arenas()[of].scope).peak;
      };
      if (peak(arena) > peak(largest)) largest = arena;
    }
    const PeakFinder::Scope& scope = table.peaks().scope(table.arenas()[largest].scope);
    return {moments.peak_events(largest), profile.to_ns(scope.peak_ticks),
            "the peak of " + pool_text(profile, table.arenas()[largest])};
  }
  for (auto mark = moments.marks().rbegin(); mark != moments.marks().rend(); ++mark) {
    if (profile.replay().name(mark->name) == at) {
      return {mark->events, profile.to_ns(mark->ticks), "mark " + profile.definitions().shown(at)};
    }
  }
  throw UsageError("the log has no mark \"" + at + "\"; peak and end are instants too");
}

std::vector<PoolState> pools_at(Profile& profile, const PoolInstant& instant,
                                const Progress& progress) {
  std::vector<PoolState> states;
  if (instant.events == PoolInstant::kEnd) {
    Snapshot::take(profile.replay().arenas(), states);
    return states;
  }
  Snapshot snapshot(instant.events, states);
  profile.replay_again(snapshot, progress);
  return states;
}

void write_pools(Profile& profile, const PoolInstant& instant, const std::vector<PoolState>& states,
                 size_t top, std::ostream& out, const TextStyle& style) {
  const size_t columns = size_columns(style);
  const size_t used = 2 + columns + 1 + kRowCountColumns + 2;
  const auto width = static_cast<size_t>(style.width);
  const size_t room = width > used ? width - used : 0;
  const size_t map_columns = std::min(kMapColumns, width - kAddressColumns - columns - 4);
  write_losses(profile.quality(), out, style);
  const ArenaTable& table = profile.replay().arenas();
  if (table.arenas().empty()) {
    write_wrapped(
        "no pool was seen: neither PyTorch's nor ONNX Runtime's, nor one that the program declares",
        out, style);
    return;
  }
  out << bold("POOLS", style) << "  at "
      << fmt::format("{}, {:+.3f} s\n", instant.name, static_cast<double>(instant.time_ns) / 1e9);
  for (size_t arena = 0; arena < states.size(); ++arena) {
    const PoolState& state = states[arena];
    const ArenaTable::Arena& info = table.arenas()[arena];
    if (info.is_unused()) continue;
    const PeakFinder::Scope& in_use = table.peaks().scope(info.scope);
    out << '\n' << bold(pool_text(profile, info), style) << '\n';
    write_wrapped(
        fmt::format("  {} in use of {} reserved, {} idle (largest {})",
                    size_text(state.level.in_use, style), size_text(state.level.reserved, style),
                    size_text(state.level.idle(), style), size_text(state.largest_idle, style)),
        out, style);
    write_wrapped(
        fmt::format(
            "  peak {} in use of {} reserved, {} idle (largest {}); {} allocations{}",
            size_text(in_use.peak, style), size_text(info.reserved_at_peak, style),
            size_text(info.reserved_at_peak - in_use.peak, style),
            size_text(info.largest_idle_at_peak, style), grouped(info.alloc_count),
            info.failed_count > 0 ? fmt::format(", {} refused", grouped(info.failed_count)) : ""),
        out, style);
    std::map<std::string, SiteRow> by_site;
    for (const PoolBlock& block : state.blocks) {
      SiteRow& row = by_site[block_title(profile, block)];
      row.bytes += block.bytes;
      ++row.count;
    }
    std::vector<std::pair<std::string, SiteRow>> rows(by_site.begin(), by_site.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
    uint64_t other = 0;
    for (size_t i = top; i < rows.size(); ++i) other += rows[i].second.bytes;
    for (size_t i = 0; i < std::min(top, rows.size()); ++i) {
      out << fmt::format("  {} {}  {}\n", right(size_text(rows[i].second.bytes, style), columns),
                         right(grouped(rows[i].second.count), kRowCountColumns),
                         cut_title(rows[i].first, room, style));
    }
    if (other > 0) {
      out << fmt::format("  {} {}  {} more sites\n", right(size_text(other, style), columns),
                         right("", kRowCountColumns), rows.size() - top);
    }
    size_t shown = 0;
    for (const PoolSegment& segment : state.segments) {
      if (++shown > top) {
        out << fmt::format("  … {} more segments\n", state.segments.size() - top);
        break;
      }
      out << fmt::format("  {:#x} {} {}\n", segment.begin,
                         right(size_text(segment.end - segment.begin, style), columns),
                         segment_map(segment, state.blocks, map_columns));
    }
  }
}

void write_pools_json(Profile& profile, const PoolMoments& moments, const PoolInstant& instant,
                      const std::vector<PoolState>& states, std::ostream& out) {
  const ArenaTable& table = profile.replay().arenas();
  Json json = view_json(profile, "gpupeak.pools/1");
  json["at"] = {{"name", instant.name}, {"time_ns", instant.time_ns}};
  json["pools"] = Json::array();
  for (size_t arena = 0; arena < states.size(); ++arena) {
    const PoolState& state = states[arena];
    const ArenaTable::Arena& info = table.arenas()[arena];
    if (info.is_unused()) continue;
    const PeakFinder::Scope& in_use = table.peaks().scope(info.scope);
    const PeakFinder::Scope& reserved = table.peaks().scope(info.reserved_scope);
    Json pool;
    pool["name"] = profile.definitions().shown(profile.replay().name(info.name));
    if (info.place >= 0) pool["device"] = info.place;
    pool["in_use_bytes"] = state.level.in_use;
    pool["reserved_bytes"] = state.level.reserved;
    pool["idle_bytes"] = state.level.idle();
    pool["largest_idle_bytes"] = state.largest_idle;
    pool["peak"] = {{"in_use_bytes", in_use.peak},
                    {"reserved_bytes", info.reserved_at_peak},
                    {"largest_idle_bytes", info.largest_idle_at_peak},
                    {"time_ns", profile.to_ns(in_use.peak_ticks)}};
    pool["reserved_peak_bytes"] = reserved.peak;
    pool["alloc_count"] = info.alloc_count;
    pool["failed_count"] = info.failed_count;
    pool["checks"] = info.told;
    pool["contradictions"] = info.contradictions;
    pool["segments"] = Json::array();
    for (const PoolSegment& segment : state.segments) {
      pool["segments"].push_back(
          {{"address", segment.begin}, {"bytes", segment.end - segment.begin}});
    }
    pool["blocks"] = Json::array();
    for (const PoolBlock& block : state.blocks) {
      Json row = {{"address", block.address},
                  {"bytes", block.bytes},
                  {"site", block_title(profile, block)}};
      for (const Frame& frame : profile.symbolizer().stack(block.stack)) {
        if (!frame.is_python) continue;
        row["python"].push_back(
            {{"function", frame.function}, {"file", frame.file}, {"line", frame.line}});
      }
      pool["blocks"].push_back(std::move(row));
    }
    json["pools"].push_back(std::move(pool));
  }
  json["marks"] = Json::array();
  for (const PoolMoments::AtMark& mark : moments.marks()) {
    Json row = {{"name", profile.definitions().shown(profile.replay().name(mark.name))},
                {"time_ns", profile.to_ns(mark.ticks)}};
    row["pools"] = Json::array();
    for (size_t arena = 0; arena < mark.levels.size(); ++arena) {
      const ArenaTable::Arena& info = table.arenas()[arena];
      if (info.is_unused()) continue;
      Json level = {{"name", profile.definitions().shown(profile.replay().name(info.name))},
                    {"in_use_bytes", mark.levels[arena].in_use},
                    {"reserved_bytes", mark.levels[arena].reserved}};
      if (info.place >= 0) level["device"] = info.place;
      row["pools"].push_back(std::move(level));
    }
    json["marks"].push_back(std::move(row));
  }
  write_line(json, out);
}

}  // namespace gpupeak::collector
