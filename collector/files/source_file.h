// A file of source that a log names, for who shows its lines. A log can name any file: only what
// has a name as source has is read, of a bounded size, and only as it was at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupeak::collector {

struct SourceFile {
  enum class State {
    kAbsent,   ///< or none that is read
    kChanged,  ///< written, renamed or put there later
    kOriginal,
  };
  State state = State::kAbsent;
  std::vector<std::string> lines;  ///< with blanks for tabs, safe to show, none of them long
};

/// `until_ns`: since 1970, when the file was read by whoever made a program of it. `root` stands
/// before the path.
SourceFile read_source(const std::string& root, const std::string& path, int64_t until_ns);

}  // namespace gpupeak::collector
