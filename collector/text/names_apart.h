// Gives functions texts that tell them apart, where their short names would be equal:
// instantiations of a template, overloads. Titles of sites and calls use it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// A text for each function, in the same order: its short name. If short names are equal, they get
/// as much of their template arguments as tells them apart; if that is not enough, of their
/// parameters, then of their namespaces, and at last all. Equal functions have equal texts.
///
///   void load<std::vector<float>>(unsigned long)   → load<vector<float>>
///   void load<std::vector<double>>(unsigned long)  → load<vector<double>>
std::vector<std::string> names_apart(const std::vector<std::string_view>& functions);

/// Shortens the inside of a bracket of template arguments to at most `most` characters: without
/// namespaces and default arguments of the standard library, and if need be without inner brackets.
/// Empty if it is still longer.
std::string short_arguments(std::string_view inside, size_t most);

// Finds texts that are equal though they stand for different things. Names of functions and titles
// of frames use it.

/// Groups of indexes whose texts are equal, if `same(i, j)` is not true for all of a group.
template <typename Same>
std::vector<std::vector<size_t>> alike(const std::vector<std::string>& texts, const Same& same) {
  std::map<std::string_view, std::vector<size_t>> by_text;
  for (size_t i = 0; i < texts.size(); ++i) by_text[texts[i]].push_back(i);
  std::vector<std::vector<size_t>> groups;
  for (auto& [text, group] : by_text) {
    const size_t first = group.front();
    if (!std::ranges::all_of(group, [&](size_t i) { return same(i, first); }))
      groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace gpupeak::collector
