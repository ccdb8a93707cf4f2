// Reads a source file that a log names, to show its lines. A log can name any file, so only a file
// with a name like source is read, of bounded size, and only if it is as it was at a given time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupeak::collector {

struct SourceFile {
  enum class State {
    kAbsent,   ///< not there, or not read
    kChanged,  ///< written, renamed or put there after that time
    kOriginal,
  };
  State state = State::kAbsent;
  std::vector<std::string> lines;  ///< tabs made blanks, safe to show, cut to a bounded length
};

/// `until_ns`: since 1970, when the program was built from the file. `root` is put before the path.
SourceFile read_source(const std::string& root, const std::string& path, int64_t until_ns);

}  // namespace gpupeak::collector
