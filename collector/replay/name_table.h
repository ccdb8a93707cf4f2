// Names of phases, tags, marks and arenas as numbers: strings of the log, and behind them those
// that records write out and those of rules.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "collector/log/definitions.h"

namespace gpupeak::collector {

class NameTable {
 public:
  explicit NameTable(const Definitions& definitions) : definitions_(definitions) {}

  /// Of a name that the log defines or, where `name` is 0, writes out.
  uint32_t id(uint32_t name, std::string_view text);
  /// Of a name that no record gives: that of the log's first string with this text, if it has one.
  uint32_t id_of(std::string_view text);
  /// The name with this number.
  std::string_view text(uint32_t id) const;

 private:
  const Definitions& definitions_;
  std::map<std::string, uint32_t, std::less<>> written_out_;
  std::vector<std::string_view> texts_;  // into the map's keys
};

}  // namespace gpupeak::collector
