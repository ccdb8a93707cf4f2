#include "collector/text/title_text.h"

#include <algorithm>

#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kShortName = 12;  // columns that a name keeps at least

std::vector<std::string> frames_of(std::string_view title) {
  std::vector<std::string> frames;
  for (size_t at = 0; at <= title.size();) {
    const size_t end = std::min(title.find(kArrow, at), title.size());
    frames.emplace_back(title.substr(at, end - at));
    at = end + kArrow.size();
  }
  return frames;
}

std::string joined(const std::vector<std::string>& frames) {
  std::string title;
  for (size_t i = 0; i < frames.size(); ++i)
    title += (i > 0 ? std::string(kArrow) : "") + frames[i];
  return title;
}

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
}

/// The first and the last columns, with "…" between.
std::string without_middle(std::string_view text, size_t width) {
  const size_t columns = display_width(text);
  if (columns <= width) return std::string(text);
  if (width == 0) return "";
  const size_t behind = (width - 1) / 2;
  const size_t before = width - 1 - behind;
  std::string out;
  size_t column = 0;
  bool marked = false;
  for (const char c : text) {
    column += begins_character(c) ? 1 : 0;
    if (column <= before || column > columns - behind) {
      out += c;
    } else if (!marked) {
      out += "…";
      marked = true;
    }
  }
  return out;
}

}  // namespace

std::string fit_title(std::string_view title, size_t width) {
  if (display_width(title) <= width) return std::string(title);
  std::vector<std::string> frames = frames_of(title);
  if (frames.size() > 2) {
    frames[1] = "…";
    frames.erase(frames.begin() + 2, frames.end() - 1);
    if (display_width(joined(frames)) <= width) return joined(frames);
  }
  while (true) {
    const std::string whole = joined(frames);
    const size_t columns = display_width(whole);
    if (columns <= width) return whole;
    const auto longest = std::max_element(frames.begin(), frames.end(),
                                          [](const std::string& a, const std::string& b) {
                                            return display_width(a) < display_width(b);
                                          });
    const size_t name = display_width(*longest);
    if (name <= kShortName) return without_middle(whole, width);
    *longest =
        without_middle(*longest, std::max(kShortName, name - std::min(name, columns - width)));
  }
}

std::string cut_title(std::string_view title, size_t width, const TextStyle& style) {
  return style.whole_lines ? std::string(title) : fit_title(title, width);
}

std::string shared_outer_frames(const std::vector<std::string>& titles) {
  if (titles.size() < 2) return "";
  std::vector<std::string> shared = frames_of(titles[0]);
  shared.erase(shared.begin());
  for (size_t i = 1; i < titles.size(); ++i) {
    std::vector<std::string> frames = frames_of(titles[i]);
    frames.erase(frames.begin());
    const auto [mine, others] =
        std::mismatch(shared.rbegin(), shared.rend(), frames.rbegin(), frames.rend());
    shared.erase(shared.begin(), mine.base());
  }
  return joined(shared);
}

std::string without_outer_frames(std::string_view title, std::string_view shared) {
  if (!shared.empty() && title.ends_with(shared)) {
    title.remove_suffix(shared.size());
    if (title.ends_with(kArrow)) title.remove_suffix(kArrow.size());
  }
  return std::string(title);
}

}  // namespace gpupeak::collector
