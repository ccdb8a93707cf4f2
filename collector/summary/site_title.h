// What frames and sites are called: "handle_request handler.cc:12 ← main main.cc:40". Tables, trees
// and exports use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// The title of blocks without a stack.
inline constexpr std::string_view kNoStack = "(no stack)";
/// The title of mappings that a child had before more than its counters was recorded.
inline constexpr std::string_view kBeforeRecording = "(mapped before it was recorded)";

/// The whole name of the function; for a Python frame, with its file. Without a name: module and
/// offset, or the address.
std::string frame_name(const Frame& frame);
/// The same with the function's name shortened.
std::string short_frame_name(const Frame& frame);
/// " file.cc:12"; ":12" for a Python frame, whose name has the file. Empty: no line is known.
std::string frame_place(const Frame& frame);
/// short_frame_name() and frame_place().
std::string frame_title(const Frame& frame);

/// "A ← B ← C"; kNoStack if there are no parts.
std::string site_title(const std::vector<SitePart>& parts);

/// How many blocks a row has: "145 006"; "≥1 280" if some stand for others, as in a sample.
std::string count_text(const Holder& holder);

/// What stands behind a row of this kind of memory: "  [linear]" for "device.linear".
std::string kind_mark(const std::string& kind);

/// By what two sites are the same.
enum class SiteKey {
  kPaths,  ///< whole names, whole paths, lines: for one run
  kLines,  ///< names of files without their folders: for builds in different places
  /// Without lines and addresses as well: for a source that was edited around the site.
  kFunctions,
};
/// Equal for equal sites and for no others, even where a title leaves something out.
std::string site_key(const std::vector<SitePart>& parts, SiteKey by);

/// A row's kind, title and site_key() by paths.
std::string row_key(const Holder& row);

std::vector<SitePart> without_lines(std::vector<SitePart> parts);

/// A text for each frame, in the same order: frame_title(). Frames that differ but would look alike
/// get as much more of their names, folders and modules as tells them apart.
std::vector<std::string> titles_apart(const std::vector<const Frame*>& frames);

/// Gives longer titles to rows of one kind that would have the same title, and sets each row's
/// telling_part.
void tell_apart(std::vector<Holder>& rows);

// What a buffer is for, in a line: "copied in · read by stencil_1d · copied out". The first screen
// and the report show it.

inline constexpr size_t kFewKernels = 3;  ///< as many as a screen shows

/// One of the things that it was used for.
struct RoleUse {
  std::string_view verb;  ///< "copied in", "read by" …
  std::string kernel;     ///< the kernel's short name, or whose library it is; empty: no kernel
  uint64_t count = 0;     ///< calls or launches that were seen
};
/// Copies in and fills; kernels, those with most launches first; copies out.
std::vector<RoleUse> role_uses(const BufferRole& role);

/// Names at most `kernels` of its kernels, those with most launches.
std::string role_text(const Holder& row, size_t kernels, const TextStyle& style);

/// The same to stand behind a title, in at most half of `width` columns; empty: it is not known.
std::string role_mark(const Holder& row, size_t width, const TextStyle& style);

/// What must be said once where rows show roles: empty, or why a buffer that was never seen used
/// may be in use nevertheless.
std::string role_note(const Peak& peak, size_t rows);

}  // namespace gpupeak::collector
