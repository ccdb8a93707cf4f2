// Names of phases, tags, marks and arenas as numbers. Strings of the log keep their ids; names that
// records write out, and names of rules, have numbers behind these.
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

  /// The number of a record's name: the log's string `name` or, where that is 0, `text`.
  uint32_t id(uint32_t name, std::string_view text);
  /// The number of a name that no record gives: the log's first string with this text or, without
  /// one, a number of its own.
  uint32_t id_of(std::string_view text);
  /// The name with this number.
  std::string_view text(uint32_t id) const;

 private:
  const Definitions& definitions_;
  std::map<std::string, uint32_t, std::less<>> written_out_;
  std::vector<std::string_view> texts_;  // into the map's keys
};

}  // namespace gpupeak::collector
