#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "collector/text/title_text.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMapColumns = 64;
constexpr size_t kAddressColumns = 14;
constexpr size_t kUseColumns = 34;

/// Takes the arenas' state after so many events, or at the end. It also follows the later events,
/// which say when the blocks were used next.
class Snapshot : public ReplayObserver {
 public:
  Snapshot(const Profile& profile, uint64_t at, std::vector<ArenaState>& states)
      : profile_(profile), uses_(has_uses(profile.definitions())), at_(at), states_(states) {}
  void after(const Event& event) override {
    ticks_ = event.ticks;
    if (++events_ == at_) take_now();
  }
  void on_arena_block(const ArenaBlockChange& change) override {
    uses_.on_block(change, replay().arenas().holder(change.holder).arena);
  }
  void on_used(const UsedEvent& used, uint64_t ticks) override { uses_.on_used(used, ticks); }
  /// The log has ended.
  void finish() {
    if (at_ == ArenaInstant::kEnd) take_now();
    for (const auto& [block, number] : taken_) say(*block, uses_.of(number));
  }

  static void take(const ArenaTable& table, std::vector<ArenaState>& states) {
    states.resize(table.arenas().size());
    for (size_t arena = 0; arena < states.size(); ++arena) {
      ArenaState& state = states[arena];
      state.level = table.level(arena);
      state.segments = table.segments(arena);
      table.for_each_hole(arena, [&state](uint64_t begin, uint64_t end, bool captured) {
        state.holes.push_back({begin, end, captured});
      });
    }
    table.for_each_block([&](uint64_t address, uint64_t bytes, HolderId id, bool alone) {
      const ArenaTable::Holder& holder = table.holder(id);
      states[holder.arena].blocks.push_back({address, bytes, holder.name, holder.stack, alone});
    });
    for (ArenaState& state : states) std::ranges::sort(state.blocks, {}, &ArenaBlock::address);
  }

 private:
  void take_now() {
    take(replay().arenas(), states_);
    taken_ticks_ = ticks_;
    if (!uses_.on()) return;
    for (size_t arena = 0; arena < states_.size(); ++arena) {
      for (ArenaBlock& block : states_[arena].blocks) {
        uses_.keep(arena, block.address);
        taken_.emplace_back(&block, uses_.block_at(arena, block.address));
      }
    }
  }
  void say(ArenaBlock& block, const BlockUses& uses) const {
    const UseStanding standing = uses.at(taken_ticks_);
    block.use = standing.use;
    block.use_ns = profile_.to_ns(taken_ticks_ + standing.ticks) - profile_.to_ns(taken_ticks_);
  }

  const Profile& profile_;
  ArenaUses uses_;
  const uint64_t at_;
  std::vector<ArenaState>& states_;
  uint64_t events_ = 0, ticks_ = 0, taken_ticks_ = 0;
  std::vector<std::pair<ArenaBlock*, uint64_t>> taken_;  // the blocks with their numbers
};

std::string place_text(int32_t place) {
  if (place == ArenaAccounts::kNowhere) return "";
  if (place == ArenaAccounts::kHost) return " on the host";
  return fmt::format(" on GPU {}", place);
}

/// `name`: as Replay::name() takes it.
std::string shown_name(const Profile& profile, uint32_t name) {
  return profile.definitions().shown(profile.replay().name(name));
}

std::string arena_text(const Profile& profile, const ArenaTable::Arena& arena) {
  return shown_name(profile, arena.name) + place_text(arena.place);
}

uint64_t bytes_of(const std::vector<ArenaTable::Segment>& pieces) {
  return sum_of(pieces, [](const auto& piece) { return piece.end - piece.begin; });
}

/// How much of the idle memory is in holes that are too small for the arena's largest requests.
void add_fragmentation(const ArenaState& state, const ArenaTable::Arena& info, TextLines& text) {
  std::string said;
  const auto add = [&](uint64_t bytes, const char* what) {
    if (bytes == 0) return;
    const uint64_t idle = state.idle_in_smaller(bytes);
    said += fmt::format("{}{} ({} %) in holes too small for its largest {}, {}",
                        said.empty() ? "  fragmentation: " : "; ", text.size(idle),
                        percent(idle, state.level.idle()), what, text.size(bytes));
  };
  if (state.level.idle() == 0) return;
  add(info.largest_block, "block");
  add(info.largest_refused, "refused request");
  if (!said.empty()) text.wrap(said);
}

std::string requests_text(const ArenaTable::Arena& info) {
  return fmt::format(
      "{} allocations{}", grouped(info.alloc_count),
      info.failed_count > 0 ? fmt::format(", {} refused", grouped(info.failed_count)) : "");
}

void add_whole(const ArenaTable& table, size_t arena, const ArenaState& state, TextLines& text) {
  const ArenaTable::Arena& info = table.arenas()[arena];
  const uint64_t peak = table.peaks().scope(info.scope).peak;
  text.wrap("  {} in use of {} reserved, {} idle (largest {})", text.size(state.level.in_use),
            text.size(state.level.reserved), text.size(state.level.idle()),
            text.size(state.largest_idle()));
  add_fragmentation(state, info, text);
  if (const uint64_t bytes = state.idle_unplaced(); bytes > 0)
    text.wrap("  {} of it at no address then", text.size(bytes));
  text.wrap("  peak {} in use of {} reserved, {} idle (largest {}); {}", text.size(peak),
            text.size(info.reserved_at_peak), text.size(info.reserved_at_peak - peak),
            text.size(info.largest_idle_at_peak), requests_text(info));
}

/// For an arena that is older than the attach: what it has reserved and what is idle is not known.
void add_older(const ArenaTable& table, size_t arena, const ArenaState& state, TextLines& text) {
  const ArenaTable::Arena& info = table.arenas()[arena];
  text.wrap("  {} in use of what it has handed out since the attach",
            text.size(state.level.in_use));
  text.wrap("  peak {} in use; {}", text.size(table.peaks().scope(info.scope).peak),
            requests_text(info));
  if (const auto older = table.older_bytes(arena))
    text.wrap("  at the end {} from before were in use, by its own account", text.size(older));
}

constexpr std::string_view kCapitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kSmall = "abcdefghijklmnopqrstuvwxyz";
/// From the 256-colour palette; black text can be read on each.
constexpr int kSiteColors[] = {215, 117, 150, 222, 183, 209, 80, 180, 174, 145};

std::string colored(std::string_view text, size_t row, const TextStyle& style) {
  if (!style.color) return std::string(text);
  return fmt::format("\x1b[48;5;{};30m{}\x1b[0m", kSiteColors[row % std::size(kSiteColors)], text);
}

/// What the arena called the block, or its site.
std::string arena_block_title(Profile& profile, const ArenaBlock& block) {
  return block.name != 0 ? shown_name(profile, block.name)
                         : profile.sites().site_title(block.stack);
}

/// Who holds what of an arena, by site, and a segment of it as a line of letters, one letter for a
/// site.
class ArenaMap {
 public:
  struct Row {
    std::string title;
    uint64_t bytes = 0, count = 0;
    struct Use {
      uint64_t bytes = 0;
      int64_t shortest_ns = 0, longest_ns = 0;
    };
    std::map<UseAtPeak, Use> uses = {};  ///< of the row's blocks

    /// The words for the use that most of its bytes had, and the percentage of these bytes if not
    /// all had it.
    std::string when_used() const {
      const auto most =
          std::ranges::max_element(uses, {}, [](const auto& of) { return of.second.bytes; });
      if (most == uses.end()) return "";
      const auto& [use, sum] = *most;
      std::string text = collector::when_used(use, sum.shortest_ns, sum.longest_ns);
      if (sum.bytes < bytes) text += fmt::format(" ({} %)", percent(sum.bytes, bytes));
      return text;
    }
  };
  /// `blocks`: by address; they must outlive the map. The first `top` rows get a letter each, as
  /// far as the alphabet goes.
  ArenaMap(Profile& profile, const std::vector<ArenaBlock>& blocks, size_t top)
      : blocks_(blocks), letters_(std::min(top, kCapitals.size())) {
    std::map<std::string, size_t> by_title;
    std::map<std::pair<uint32_t, uint32_t>, size_t> by_holder;
    std::vector<Row> rows;
    for (const ArenaBlock& block : blocks) {
      const auto [holder, fresh] = by_holder.try_emplace({block.name, block.stack}, rows.size());
      if (fresh) {
        const std::string title = arena_block_title(profile, block);
        const auto [known, added] = by_title.try_emplace(title, rows.size());
        holder->second = known->second;
        if (added) rows.push_back({title});
      }
      Row& row = rows[holder->second];
      row.bytes += block.bytes;
      ++row.count;
      const auto [use, is_new] =
          row.uses.try_emplace(block.use, Row::Use{0, block.use_ns, block.use_ns});
      use->second.bytes += block.bytes;
      use->second.shortest_ns = std::min(use->second.shortest_ns, block.use_ns);
      use->second.longest_ns = std::max(use->second.longest_ns, block.use_ns);
      row_of_.push_back(holder->second);
    }
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) {
      return std::pair(UINT64_MAX - rows[i].bytes, std::string_view(rows[i].title));
    });
    std::vector<size_t> place(rows.size());
    for (size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      rows_.push_back(std::move(rows[order[i]]));
    }
    for (size_t& row : row_of_) row = place[row];
  }

  /// Largest first.
  const std::vector<Row>& rows() const { return rows_; }
  /// The row's letter; a space if it has none.
  std::string letter(size_t row, const TextStyle& style) const {
    return row < letters_ ? colored(kCapitals.substr(row, 1), row, style) : " ";
  }
  /// Each column stands for an equal part of the segment. It shows the letter of the row that holds
  /// most of that part: a capital if no byte of the part is idle, else a small letter. For a row
  /// without a letter a full or a grey box; a dot if the whole part is idle.
  std::string line(const ArenaTable::Segment& segment, size_t columns,
                   const TextStyle& style) const {
    const uint64_t bytes = segment.end - segment.begin;
    std::vector<Column> cells(columns);
    const auto column_begin = [&](size_t column) {  // no log has a block of 2^57 bytes
      return segment.begin + bytes * column / columns;
    };
    auto block = std::lower_bound(blocks_.begin(), blocks_.end(), segment.begin,
                                  [](const ArenaBlock& a, uint64_t at) { return a.address < at; });
    if (block != blocks_.begin() &&
        std::prev(block)->address + std::prev(block)->bytes > segment.begin) {
      --block;
    }
    size_t first = 0;
    for (; block != blocks_.end() && block->address < segment.end; ++block) {
      if (block->alone) continue;
      const uint64_t end = block->address + block->bytes;
      const size_t row = row_of_[static_cast<size_t>(block - blocks_.begin())];
      while (first + 1 < columns && column_begin(first + 1) <= block->address) ++first;
      for (size_t column = first; column < columns && column_begin(column) < end; ++column) {
        const uint64_t from = std::max(block->address, column_begin(column));
        const uint64_t to = std::min(end, column_begin(column + 1));
        if (to <= from) continue;
        cells[column].used += to - from;
        cells[column].by_row[row] += to - from;
      }
    }
    std::string line;
    for (size_t column = 0; column < columns; ++column)
      line += cell(cells[column], column_begin(column + 1) - column_begin(column), style);
    return line;
  }

 private:
  struct Column {
    uint64_t used = 0;
    std::map<size_t, uint64_t> by_row;
  };
  std::string cell(const Column& column, uint64_t bytes, const TextStyle& style) const {
    if (column.used == 0) return faint("·", style);
    const auto held = [](const auto& of) { return of.second; };
    const size_t row = std::ranges::max_element(column.by_row, {}, held)->first;
    const bool full = column.used >= bytes;
    if (row >= letters_) return full ? "█" : "▒";
    return colored((full ? kCapitals : kSmall).substr(row, 1), row, style);
  }

  const std::vector<ArenaBlock>& blocks_;
  std::vector<Row> rows_;
  std::vector<size_t> row_of_;  // by block
  size_t letters_;
};

Json arenas_json(Profile& profile, const ArenaMoments& moments, const ArenaInstant& instant,
                 const std::vector<ArenaState>& states) {
  const ArenaTable& table = profile.replay().arenas();
  Json json = view_json(profile, "gpupeak.pools/1");
  extend(json, "at, pools", object("name, time_ns", instant.name, instant.time_ns), Json::array());
  const bool says_use = has_uses(profile.definitions());
  for (size_t arena = 0; arena < states.size(); ++arena) {
    const ArenaState& state = states[arena];
    const ArenaTable::Arena& info = table.arenas()[arena];
    if (info.is_unused()) continue;
    const PeakFinder::Scope& in_use = table.peaks().scope(info.scope);
    const PeakFinder::Scope& reserved = table.peaks().scope(info.reserved_scope);
    Json row;
    row["name"] = shown_name(profile, info.name);
    if (info.place >= 0) row["device"] = info.place;
    row["in_use_bytes"] = state.level.in_use;
    // What an arena of an attached program had before the attach is not known.
    const auto of_whole = [&info](uint64_t bytes) {
      return info.has_older ? Json(nullptr) : Json(bytes);
    };
    extend(row, "reserved_bytes, idle_bytes, largest_idle_bytes, unplaced_idle_bytes",
           of_whole(state.level.reserved), of_whole(state.level.idle()),
           of_whole(state.largest_idle()), of_whole(state.idle_unplaced()));
    if (info.has_older) {
      const std::optional<uint64_t> older = table.older_bytes(arena);
      row["from_before"] = object("in_use_bytes", older);
    }
    const auto fragmentation = [&](uint64_t bytes) -> Json {
      if (bytes == 0 || info.has_older) return nullptr;
      return object("bytes, idle_in_smaller_bytes", bytes, state.idle_in_smaller(bytes));
    };
    extend(row,
           "largest_block, largest_refused, peak, reserved_peak_bytes, alloc_count, failed_count, "
           "checks, contradictions, segments",
           fragmentation(info.largest_block), fragmentation(info.largest_refused),
           object("in_use_bytes, reserved_bytes, largest_idle_bytes, time_ns", in_use.peak,
                  of_whole(info.reserved_at_peak), of_whole(info.largest_idle_at_peak),
                  profile.to_ns(in_use.peak_ticks)),
           of_whole(reserved.peak), info.alloc_count, info.failed_count, info.told,
           info.contradictions, array_of(state.segments, [](const ArenaTable::Segment& segment) {
             return object("address, bytes", segment.begin, segment.end - segment.begin);
           }));
    row["blocks"] = array_of(state.blocks, [&](const ArenaBlock& block) {
      Json held = object("address, bytes, site", block.address, block.bytes,
                         arena_block_title(profile, block));
      if (says_use)
        extend(held, "use, use_ns", use_name(block.use).name,
               has_time(block.use) ? Json(block.use_ns) : Json());
      for (const Frame& frame : profile.symbolizer().stack(block.stack)) {
        if (!frame.is_python) continue;
        held["python"].push_back(
            object("function, file, line", frame.function, frame.file, frame.line));
      }
      return held;
    });
    json["pools"].push_back(std::move(row));
  }
  json["marks"] = array_of(moments.marks(), [&](const ArenaMoments::AtMark& mark) {
    Json row = object("name, time_ns", shown_name(profile, mark.name), profile.to_ns(mark.ticks));
    row["pools"] = Json::array();
    for (size_t arena = 0; arena < mark.levels.size(); ++arena) {
      const ArenaTable::Arena& info = table.arenas()[arena];
      if (info.is_unused()) continue;
      Json level = object("name, in_use_bytes, reserved_bytes", shown_name(profile, info.name),
                          mark.levels[arena].in_use,
                          info.has_older ? Json(nullptr) : Json(mark.levels[arena].reserved));
      if (info.place >= 0) level["device"] = info.place;
      row["pools"].push_back(std::move(level));
    }
    return row;
  });
  return json;
}

}  // namespace

uint64_t ArenaState::largest_idle() const {
  return most_of(holes, [](const auto& hole) { return hole.end - hole.begin; });
}

uint64_t ArenaState::idle_in_smaller(uint64_t bytes) const {
  return sum_of(holes, [&](const auto& hole) {
    return hole.end - hole.begin < bytes ? hole.end - hole.begin : 0;
  });
}

uint64_t ArenaState::idle_unplaced() const {
  const uint64_t placed = bytes_of(holes);
  return level.idle() > placed ? level.idle() - placed : 0;
}

uint64_t ArenaState::alone_bytes() const {
  return sum_of(blocks, [](const ArenaBlock& block) { return block.alone ? block.bytes : 0; });
}

void ArenaMoments::after(const Event& event) {
  ++events_;
  const ArenaTable& table = replay().arenas();
  if (event.tag == GPUPEAK_REC_MARK && marks_.size() < kMaxMarks && !replay().marks().empty()) {
    AtMark& mark = marks_.emplace_back();
    mark.events = events_;
    mark.ticks = event.ticks;
    mark.name = replay().marks().back().name;
    for (size_t arena = 0; arena < table.arenas().size(); ++arena)
      mark.levels.push_back(table.level(arena));
  }
  if (event.tag != GPUPEAK_REC_ARENA_ALLOC) return;
  peaks_.resize(table.arenas().size());
  for (size_t arena = 0; arena < peaks_.size(); ++arena) {
    const uint64_t peak = table.peaks().scope(table.arenas()[arena].scope).peak;
    if (peak > peaks_[arena].first) peaks_[arena] = {peak, events_};
  }
}

ArenaInstant arena_instant(const Profile& profile, const ArenaMoments& moments,
                           const std::string& at) {
  const ArenaTable& table = profile.replay().arenas();
  if (at == "end" || (at == "peak" && table.arenas().empty()))
    return {ArenaInstant::kEnd, profile.to_ns(profile.replay().last_ticks()), "the end"};
  if (at == "peak") {
    const auto largest = std::ranges::max_element(
        table.arenas(), {}, [&](const auto& of) { return table.peaks().scope(of.scope).peak; });
    return {moments.peak_events(static_cast<size_t>(largest - table.arenas().begin())),
            profile.to_ns(table.peaks().scope(largest->scope).peak_ticks),
            "the peak of " + arena_text(profile, *largest)};
  }
  const NamedMoment moment = find_moment(profile, profile.scope(""), at);
  return {moment.events, moment.time_ns, moment.name};
}

std::vector<ArenaState> arenas_at(Profile& profile, const ArenaInstant& instant,
                                  const Progress& progress) {
  std::vector<ArenaState> states;
  if (instant.events == ArenaInstant::kEnd && !has_uses(profile.definitions())) {
    Snapshot::take(profile.replay().arenas(), states);
    return states;
  }
  if (instant.events > 0) {
    Snapshot snapshot(profile, instant.events, states);
    profile.replay_again(snapshot, progress);
    snapshot.finish();
  }
  // Arenas that come later have nothing yet.
  states.resize(profile.replay().arenas().arenas().size());
  return states;
}

void write_arenas(Profile& profile, const ArenaMoments& moments, const ArenaInstant& instant,
                  const std::vector<ArenaState>& states, size_t top, std::ostream& out,
                  const ViewStyle& style) {
  if (style.is_json()) return write_line(arenas_json(profile, moments, instant, states), out);
  const size_t columns = size_columns(style);
  const bool says_use = has_uses(profile.definitions());
  const size_t used = 2 + 2 + columns + 1 + kRowCountColumns + 2 + (says_use ? kUseColumns + 2 : 0);
  TextLines text = view_text(profile, style);
  const size_t room = text.width() > used ? text.width() - used : 0;
  const size_t map_columns = std::min(kMapColumns, text.width() - kAddressColumns - columns - 4);
  const ArenaTable& table = profile.replay().arenas();
  if (table.arenas().empty()) {
    text.wrap(
        "no pool was seen: neither PyTorch's nor ONNX Runtime's, nor one that the program "
        "declares");
    return text.write(out);
  }
  text.add("{}  at {}, {:+.3f} s", bold("POOLS", style), instant.name,
           static_cast<double>(instant.time_ns) / 1e9);
  bool mapped = false;
  for (size_t arena = 0; arena < states.size(); ++arena) {
    const ArenaState& state = states[arena];
    const ArenaTable::Arena& info = table.arenas()[arena];
    if (info.is_unused()) continue;
    mapped |= !state.segments.empty();
    text.add("\n{}", bold(arena_text(profile, info), style));
    if (info.has_older) {
      add_older(table, arena, state, text);
    } else {
      add_whole(table, arena, state, text);
    }
    const ArenaMap map(profile, state.blocks, top);
    const TopRows rows(map.rows(), top);
    for (size_t i = 0; i < rows.shown.size(); ++i) {
      const ArenaMap::Row& row = rows.shown[i];
      text.add("  {} {} {}  {}{}", map.letter(i, style), text.cell(row.bytes),
               right(grouped(row.count), kRowCountColumns),
               says_use ? left(row.when_used(), kUseColumns) + "  " : "",
               cut_title(row.title, room, style));
    }
    if (rows.other_bytes > 0)
      text.add("    {} {}  {} more sites", text.cell(rows.other_bytes), right("", kRowCountColumns),
               rows.others);
    const auto add = [&](const ArenaTable::Segment& segment) {
      text.add("  {:#x} {} {}", segment.begin, text.cell(segment.end - segment.begin),
               map.line(segment, map_columns, style));
    };
    text.first(state.segments, top, add, " segments");
    if (const uint64_t bytes = state.alone_bytes(); bytes > 0)
      text.wrap("  {} in use in memory that the log does not have", text.size(bytes));
  }
  if (says_use) {
    text.add("");
    text.wrap(kUsedNote);
  }
  if (mapped) {
    text.add("");
    text.wrap(
        "maps: a letter is who holds most of a column, a small one if part of it is idle; · all "
        "idle, █ and ▒ other sites");
  }
  text.write(out);
}

}  // namespace gpupeak::collector
