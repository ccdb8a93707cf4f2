// Who holds what of a pool, by site, and a segment of it as a line of letters, one a site. `gpupeak
// pools` draws it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collector/views/pools.h"

namespace gpupeak::collector {

/// What the pool called the block, or its site.
std::string pool_block_title(Profile& profile, const PoolBlock& block);

class PoolMap {
 public:
  struct Row {
    std::string title;
    uint64_t bytes = 0, count = 0;
  };
  /// `blocks`: by address; they must outlive it. The first `top` rows have letters, as far as the
  /// alphabet goes.
  PoolMap(Profile& profile, const std::vector<PoolBlock>& blocks, size_t top);

  /// The largest first.
  const std::vector<Row>& rows() const { return rows_; }
  /// Of a row; a space if it has none.
  std::string letter(size_t row, const TextStyle& style) const;
  /// A column is an equal part of the segment: the letter of who holds most of it, a small one if
  /// part of it is idle; a dot if all of it is.
  std::string line(const ArenaTable::Segment& segment, size_t columns,
                   const TextStyle& style) const;

 private:
  struct Column {
    uint64_t used = 0;
    std::map<size_t, uint64_t> by_row;
  };
  std::string cell(const Column& column, uint64_t bytes, const TextStyle& style) const;

  const std::vector<PoolBlock>& blocks_;
  std::vector<Row> rows_;
  std::vector<size_t> row_of_;  // by block
  size_t letters_;
};

}  // namespace gpupeak::collector
