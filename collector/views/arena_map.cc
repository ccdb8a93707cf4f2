#include "collector/views/arena_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "collector/write/use_words.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kCapitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kSmall = "abcdefghijklmnopqrstuvwxyz";
/// From the 256-colour palette; black text can be read on each.
constexpr int kSiteColors[] = {215, 117, 150, 222, 183, 209, 80, 180, 174, 145};

std::string painted(std::string_view text, size_t row, const TextStyle& style) {
  if (!style.color) return std::string(text);
  return fmt::format("\x1b[48;5;{};30m{}\x1b[0m", kSiteColors[row % std::size(kSiteColors)], text);
}

}  // namespace

std::string arena_block_title(Profile& profile, const ArenaBlock& block) {
  return block.name != 0 ? profile.definitions().shown(profile.replay().name(block.name))
                         : profile.sites().site_title(block.stack);
}

std::string ArenaMap::Row::when_used() const {
  const auto most = std::max_element(uses.begin(), uses.end(), [](const auto& a, const auto& b) {
    return a.second.bytes < b.second.bytes;
  });
  if (most == uses.end()) return "";
  const auto& [use, sum] = *most;
  std::string text = collector::when_used(use, sum.shortest_ns, sum.longest_ns);
  if (sum.bytes < bytes) text += fmt::format(" ({} %)", percent(sum.bytes, bytes));
  return text;
}

ArenaMap::ArenaMap(Profile& profile, const std::vector<ArenaBlock>& blocks, size_t top)
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
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return rows[a].bytes != rows[b].bytes ? rows[a].bytes > rows[b].bytes
                                          : rows[a].title < rows[b].title;
  });
  std::vector<size_t> place(rows.size());
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    rows_.push_back(std::move(rows[order[i]]));
  }
  for (size_t& row : row_of_) row = place[row];
}

std::string ArenaMap::letter(size_t row, const TextStyle& style) const {
  return row < letters_ ? painted(kCapitals.substr(row, 1), row, style) : " ";
}

std::string ArenaMap::cell(const Column& column, uint64_t bytes, const TextStyle& style) const {
  if (column.used == 0) return faint("·", style);
  const size_t row =
      std::max_element(column.by_row.begin(), column.by_row.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; })
          ->first;
  const bool full = column.used >= bytes;
  if (row >= letters_) return full ? "█" : "▒";
  return painted((full ? kCapitals : kSmall).substr(row, 1), row, style);
}

std::string ArenaMap::line(const ArenaTable::Segment& segment, size_t columns,
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
  for (size_t column = 0; column < columns; ++column) {
    line += cell(cells[column], column_begin(column + 1) - column_begin(column), style);
  }
  return line;
}

}  // namespace gpupeak::collector
