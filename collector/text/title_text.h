// Makes titles of sites ("A ← B ← C") fit into a column. The text writers share it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// Stands between a frame and its caller.
inline constexpr std::string_view kArrow = " ← ";

/// The title in at most `width` columns. Frame number `telling` is the one in which the row differs
/// from others: it is cut last, and its line stays in any case. First the frames go that are
/// neither the first, nor the last, nor this one; then the middles of the longest names; then the
/// last frame; then the first.
std::string fit_title(std::string_view title, size_t width, size_t telling = 0);
/// fit_title() of each. The frame that tells is the last, the reader's own, where no other title
/// ends so; else the first one that no other title has in that place.
std::vector<std::string> fit_titles(const std::vector<std::string>& titles, size_t width);
/// fit_title(), unless style.whole_lines.
std::string cut_title(std::string_view title, size_t width, const TextStyle& style,
                      size_t telling = 0);
/// A row of `width` columns: the title has the room that its figures and its marks leave.
std::string title_row(const std::string& figures, std::string_view title, const std::string& marks,
                      size_t width, const TextStyle& style, size_t telling = 0);

/// The first rows of a table, and what all others have together.
template <class Row>
struct TopRows {
  template <class Bytes = uint64_t Row::*>
  TopRows(const std::vector<Row>& rows, size_t most, uint64_t unlisted_bytes = 0,
          Bytes bytes = &Row::bytes)
      : shown(rows.data(), std::min(most, rows.size())),
        others(rows.size() - shown.size()),
        other_bytes(unlisted_bytes) {
    for (size_t i = shown.size(); i < rows.size(); ++i) other_bytes += std::invoke(bytes, rows[i]);
  }
  std::span<const Row> shown;
  size_t others;
  uint64_t other_bytes;
};

/// A title as a sentence names it, the user's own code first: "run_model main.cc:41
/// (Gemm::Compute)" for "BFCArena::Reserve ← Gemm::Compute ← run_model main.cc:41". That is the
/// outermost frame with a line, or without any the outermost; in brackets is what it calls.
/// Python's code outside of functions has its line alone. A title whose own code has no name stays
/// as it is.
std::string spoken_title(std::string_view title);

}  // namespace gpupeak::collector
