#include "collector/files/source_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "collector/files/file_state.h"
#include "collector/files/regular_file.h"
#include "collector/text/file_name.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kMostBytes = 4 << 20;
constexpr size_t kMostColumns = 200;  ///< bytes of a line
constexpr size_t kTab = 4;

constexpr std::array<std::string_view, 44> kEndings{
    "C",   "F90", "H",   "S",   "adb", "asm", "c",   "c++",   "cc",  "cpp", "cu",
    "cuh", "cxx", "d",   "f",   "f03", "f08", "f90", "f95",   "for", "go",  "h",
    "h++", "hh",  "hpp", "hxx", "inc", "inl", "ipp", "ispc",  "jl",  "m",   "mm",
    "nim", "pas", "py",  "pyx", "pxd", "rs",  "s",   "swift", "tcc", "tpp", "zig"};

bool is_named_as_source(std::string_view path) {
  const std::string_view name = file_name(path);
  const size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot > 0 &&
         std::find(kEndings.begin(), kEndings.end(), name.substr(dot + 1)) != kEndings.end();
}

/// Whether the path means the same for every process: not /proc/self/cwd/x.cc, nor x.cc.
bool is_fixed_place(std::string_view path) {
  return path.starts_with('/') && !path.starts_with("/proc/") && !path.starts_with("/dev/") &&
         !path.starts_with("/sys/");
}

std::string shown_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::string text;
  for (const char letter : line) {
    if (letter == '\t')
      text.append(kTab - text.size() % kTab, ' ');
    else
      text += letter;
    if (text.size() > kMostColumns) break;
  }
  if (text.size() <= kMostColumns) return escape(text);
  size_t end = kMostColumns;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return escape(std::string_view(text).substr(0, end)) + "…";
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(shown_line(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

SourceFile read_source(const std::string& root, const std::string& path, int64_t until_ns) {
  SourceFile source;
  if (!is_fixed_place(path) || !is_named_as_source(path)) return source;
  const std::optional<std::string> text = read_regular(root + path, kMostBytes);
  if (!text) return source;
  // Checked after reading, so that a file that is written meanwhile counts as changed.
  const FileState state = state_of_file(root + path);
  const bool original =
      state.bytes == text->size() && state.modified_ns <= until_ns && state.changed_ns <= until_ns;
  source.state = original ? SourceFile::State::kOriginal : SourceFile::State::kChanged;
  if (original) source.lines = lines_of(*text);
  return source;
}

}  // namespace gpupeak::collector
