#include "collector/text/name_match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace gpupeak::collector {

bool any_glob_matches(const std::vector<std::string>& patterns, std::string_view text) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, text); });
}

namespace {

constexpr size_t kFar = 1000;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// How many letters must be added, dropped, changed or swapped with a neighbour to make `b` of `a`.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = std::exchange(last, now);
  }
  return last[b.size()];
}

/// How far a name is from what was written; kFar: it cannot have been meant.
size_t distance(const std::string& word, const std::string& name) {
  const size_t changed = edits(word, name);
  if (changed <= std::max<size_t>(1, word.size() / 3)) return changed;
  // A part of a name must have so many letters to tell which is meant.
  constexpr size_t kTelling = 3;
  if (word.size() >= kTelling && name.find(word) != std::string::npos) return changed;
  return kFar;
}

}  // namespace

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& names,
                                 size_t most) {
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& name : names) {
    const size_t far = distance(lower(word), lower(name));
    if (far < kFar) found.emplace_back(far, name);
  }
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> result;
  for (const auto& [far, name] : found) {
    if (result.size() < most) result.push_back(name);
  }
  return result;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string> meant = nearest(word, names);
  if (!meant.empty()) return fmt::format("; did you mean {}?", fmt::join(meant, " or "));
  if (names.empty()) return "";
  constexpr size_t kListed = 12;
  const size_t listed = std::min(kListed, names.size());
  return fmt::format("; there are {}{}",
                     fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(listed), ", "),
                     listed < names.size() ? fmt::format(" … ({})", names.size()) : "");
}

}  // namespace gpupeak::collector
