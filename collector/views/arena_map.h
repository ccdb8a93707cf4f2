// Who holds what of an arena, by site, and a segment of it as a line of letters, one letter for a
// site. `gpupeak arenas` draws it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collector/views/arenas.h"

namespace gpupeak::collector {

/// What the arena called the block, or its site.
std::string arena_block_title(Profile& profile, const ArenaBlock& block);

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
    std::string when_used() const;
  };
  /// `blocks`: by address; they must outlive the map. The first `top` rows get a letter each, as
  /// far as the alphabet goes.
  ArenaMap(Profile& profile, const std::vector<ArenaBlock>& blocks, size_t top);

  /// Largest first.
  const std::vector<Row>& rows() const { return rows_; }
  /// The row's letter; a space if it has none.
  std::string letter(size_t row, const TextStyle& style) const;
  /// Each column stands for an equal part of the segment. It shows the letter of the row that holds
  /// most of that part: a capital if no byte of the part is idle, else a small letter. For a row
  /// without a letter a full or a grey box; a dot if the whole part is idle.
  std::string line(const ArenaTable::Segment& segment, size_t columns,
                   const TextStyle& style) const;

 private:
  struct Column {
    uint64_t used = 0;
    std::map<size_t, uint64_t> by_row;
  };
  std::string cell(const Column& column, uint64_t bytes, const TextStyle& style) const;

  const std::vector<ArenaBlock>& blocks_;
  std::vector<Row> rows_;
  std::vector<size_t> row_of_;  // by block
  size_t letters_;
};

}  // namespace gpupeak::collector
