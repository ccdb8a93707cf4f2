#include "collector/views/arena_map.h"
#include "collector/views/arenas.h"
#include "collector/write/use_words.h"

namespace gpupeak::collector {

void write_arenas_json(Profile& profile, const ArenaMoments& moments, const ArenaInstant& instant,
                       const std::vector<ArenaState>& states, std::ostream& out) {
  const ArenaTable& table = profile.replay().arenas();
  Json json = view_json(profile, "gpupeak.pools/1");
  json["at"] = {{"name", instant.name}, {"time_ns", instant.time_ns}};
  json["pools"] = Json::array();
  const bool says_use = has_uses(profile.definitions());
  for (size_t arena = 0; arena < states.size(); ++arena) {
    const ArenaState& state = states[arena];
    const ArenaTable::Arena& info = table.arenas()[arena];
    if (info.is_unused()) continue;
    const PeakFinder::Scope& in_use = table.peaks().scope(info.scope);
    const PeakFinder::Scope& reserved = table.peaks().scope(info.reserved_scope);
    Json row;
    row["name"] = profile.definitions().shown(profile.replay().name(info.name));
    if (info.place >= 0) row["device"] = info.place;
    row["in_use_bytes"] = state.level.in_use;
    // What an arena of an attached program had before the attach is not known.
    const auto of_whole = [&info](uint64_t bytes) {
      return info.has_older ? Json(nullptr) : Json(bytes);
    };
    row["reserved_bytes"] = of_whole(state.level.reserved);
    row["idle_bytes"] = of_whole(state.level.idle());
    row["largest_idle_bytes"] = of_whole(state.largest_idle());
    row["unplaced_idle_bytes"] = of_whole(state.idle_unplaced());
    if (info.has_older) {
      const std::optional<uint64_t> older = table.older_bytes(arena);
      row["from_before"] = {{"in_use_bytes", older ? Json(*older) : Json(nullptr)}};
    }
    const auto fragmentation = [&](uint64_t bytes) -> Json {
      if (bytes == 0 || info.has_older) return nullptr;
      return {{"bytes", bytes}, {"idle_in_smaller_bytes", state.idle_in_smaller(bytes)}};
    };
    row["largest_block"] = fragmentation(info.largest_block);
    row["largest_refused"] = fragmentation(info.largest_refused);
    row["peak"] = {{"in_use_bytes", in_use.peak},
                   {"reserved_bytes", of_whole(info.reserved_at_peak)},
                   {"largest_idle_bytes", of_whole(info.largest_idle_at_peak)},
                   {"time_ns", profile.to_ns(in_use.peak_ticks)}};
    row["reserved_peak_bytes"] = of_whole(reserved.peak);
    row["alloc_count"] = info.alloc_count;
    row["failed_count"] = info.failed_count;
    row["checks"] = info.told;
    row["contradictions"] = info.contradictions;
    row["segments"] = Json::array();
    for (const ArenaTable::Segment& segment : state.segments) {
      row["segments"].push_back(
          {{"address", segment.begin}, {"bytes", segment.end - segment.begin}});
    }
    row["blocks"] = Json::array();
    for (const ArenaBlock& block : state.blocks) {
      Json held = {{"address", block.address},
                   {"bytes", block.bytes},
                   {"site", arena_block_title(profile, block)}};
      if (says_use) {
        held["use"] = use_name(block.use).name;
        held["use_ns"] = has_time(block.use) ? Json(block.use_ns) : Json();
      }
      for (const Frame& frame : profile.symbolizer().stack(block.stack)) {
        if (!frame.is_python) continue;
        held["python"].push_back(
            {{"function", frame.function}, {"file", frame.file}, {"line", frame.line}});
      }
      row["blocks"].push_back(std::move(held));
    }
    json["pools"].push_back(std::move(row));
  }
  json["marks"] = Json::array();
  for (const ArenaMoments::AtMark& mark : moments.marks()) {
    Json row = {{"name", profile.definitions().shown(profile.replay().name(mark.name))},
                {"time_ns", profile.to_ns(mark.ticks)}};
    row["pools"] = Json::array();
    for (size_t arena = 0; arena < mark.levels.size(); ++arena) {
      const ArenaTable::Arena& info = table.arenas()[arena];
      if (info.is_unused()) continue;
      Json level = {
          {"name", profile.definitions().shown(profile.replay().name(info.name))},
          {"in_use_bytes", mark.levels[arena].in_use},
          {"reserved_bytes", info.has_older ? Json(nullptr) : Json(mark.levels[arena].reserved)}};
      if (info.place >= 0) level["device"] = info.place;
      row["pools"].push_back(std::move(level));
    }
    json["marks"].push_back(std::move(row));
  }
  write_line(json, out);
}

}  // namespace gpupeak::collector
