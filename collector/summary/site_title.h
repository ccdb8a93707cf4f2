// What frames and sites are called: "handle_request handler.cc:12 ← main main.cc:40". Tables, trees
// and exports use it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// The title of blocks without a stack.
inline constexpr std::string_view kNoStack = "(no stack)";

/// The whole name of the function; of a Python frame with its file. Where no name is known, module
/// and offset.
std::string frame_name(const Frame& frame);
/// The same, short.
std::string short_frame_name(const Frame& frame);
/// " file.cc:12", ":12" of a Python frame, whose name has the file; empty: no line is known.
std::string frame_place(const Frame& frame);
/// short_frame_name() and frame_place().
std::string frame_title(const Frame& frame);

/// `libx.so+0x1234 (4 frames)` where the address is all there is, else `libx.so (4 frames)`.
std::string part_title(const SitePart& part);
/// "A ← B ← C"; kNoStack of nothing.
std::string site_title(const std::vector<SitePart>& parts);

/// How many blocks a row has: "145 006"; "≥1 280" where some stand for others, as in a sample.
std::string count_text(const Holder& holder);

/// What makes two sites one.
enum class SiteKey {
  kPaths,      ///< whole names, whole paths, lines: within one run
  kLines,      ///< names of files without their folders: in builds in different places
  kFunctions,  ///< nor lines, nor addresses: when the source was edited around the site
};
/// Equal for equal sites, and for no others, whatever a title leaves out.
std::string site_key(const std::vector<SitePart>& parts, SiteKey by);

/// Of a row: kind, title and site_key() by paths.
std::string row_key(const Holder& row);

std::vector<SitePart> without_lines(std::vector<SitePart> parts);

/// A text for each, in the same order: frame_title(), and as much more of names, folders and
/// modules as tells those apart that would look alike and are not the same.
std::vector<std::string> titles_apart(const std::vector<const Frame*>& frames);

/// Rows of one kind whose titles are alike get longer ones, and each row is told the part by which
/// it differs from those that begin alike.
void tell_apart(std::vector<Holder>& rows);

}  // namespace gpupeak::collector
