#include "collector/replay/name_table.h"

#include <algorithm>

#include "collector/log/definitions.h"

namespace gpupeak::collector {

uint32_t NameTable::id(uint32_t name, std::string_view text) {
  const size_t first = definitions_.strings().size();
  if (name != 0 || text.empty()) return name < first ? name : 0;
  const auto [entry, added] = written_out_.try_emplace(
      std::string(bounded_name(text)), static_cast<uint32_t>(first + texts_.size()));
  if (added) texts_.push_back(entry->first);
  return entry->second;
}

uint32_t NameTable::id_of(std::string_view text) {
  const std::vector<std::string_view>& strings = definitions_.strings();
  const auto known = std::find(strings.begin(), strings.end(), text);
  return known == strings.end() ? id(0, text) : static_cast<uint32_t>(known - strings.begin());
}

std::string_view NameTable::text(uint32_t id) const {
  const size_t first = definitions_.strings().size();
  if (id < first) return definitions_.string(id);
  return id - first < texts_.size() ? texts_[id - first] : std::string_view{};  // a damaged log
}

}  // namespace gpupeak::collector
