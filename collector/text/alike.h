// Finds texts that are equal though they stand for different things. Names of functions and titles
// of frames use it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// Groups of indexes whose texts are equal, if `same(i, j)` is not true for all of a group.
template <typename Same>
std::vector<std::vector<size_t>> alike(const std::vector<std::string>& texts, const Same& same) {
  std::map<std::string_view, std::vector<size_t>> by_text;
  for (size_t i = 0; i < texts.size(); ++i) by_text[texts[i]].push_back(i);
  std::vector<std::vector<size_t>> groups;
  for (auto& [text, group] : by_text) {
    const size_t first = group.front();
    if (!std::all_of(group.begin(), group.end(), [&](size_t i) { return same(i, first); }))
      groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace gpupeak::collector
