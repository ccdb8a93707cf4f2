#include "collector/log/code_names.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/log/clock_map.h"
#include "collector/log/log_head.h"
#include "collector/text/function_names.h"

namespace gpupeak::collector {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

/// Reads a number at the beginning of `text` and takes it off, with one mark behind it.
std::optional<uint64_t> take_hex(std::string_view& text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  constexpr int kHex = 16;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, kHex);
  const auto used = static_cast<size_t>(end - text.data());
  if (error != std::errc() || used >= text.size() || text[used] != ' ') return std::nullopt;
  text.remove_prefix(used + 1);
  return value;
}

/// Takes ":12" off the end.
std::optional<int> take_number(std::string_view& text) {
  const size_t at = text.rfind(':');
  int value = 0;
  if (at == text.npos) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + at + 1, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  text = text.substr(0, at);
  return value;
}

/// "decodeFrame /srv/t.js:4:21", with or without the column.
DwarfFrame script_frame(std::string_view text) {
  DwarfFrame frame;
  const std::optional<int> last = take_number(text);
  frame.line = (last ? take_number(text) : std::nullopt).value_or(last.value_or(0));
  size_t at = text.npos;
  for (const char* begin : {" /", " file:", " node:"}) at = std::min(at, text.find(begin));
  if (at == text.npos) at = text.rfind(' ');
  frame.function = text.substr(0, at);
  if (at != text.npos) frame.file = text.substr(at + 1);
  if (frame.file.starts_with("file://")) frame.file.erase(0, std::string_view("file://").size());
  if (frame.function.empty()) frame.function = "<anonymous>";
  return frame;
}

/// The names of one address: code that has gone may have made room for other code.
class NamesOfCode {
 public:
  void add(const DwarfFrame& frame) {
    const auto same = [&](const DwarfFrame& known) {
      return known.function == frame.function && known.file == frame.file &&
             known.line == frame.line;
    };
    if (frames_.size() <= kMost && std::none_of(frames_.begin(), frames_.end(), same))
      frames_.push_back(frame);
  }
  /// Nothing tells which of several it was: the frame says all their names.
  std::optional<DwarfFrame> frame() const {
    if (frames_.empty() || frames_.size() > kMost) return std::nullopt;
    if (frames_.size() == 1) return frames_[0];
    DwarfFrame all{"", "", 0, NameSource::kPerfMap};
    for (const DwarfFrame& frame : frames_)
      all.function.append(all.function.empty() ? "" : kOr).append(frame.function);
    return all;
  }

 private:
  static constexpr size_t kMost = 3;
  std::vector<DwarfFrame> frames_;
};

/// Whether the log's process ran at that time, since 1970.
bool ran_at(int64_t time_ns, const std::string& log, const gpupeak_file_header& header,
            const gpupeak_counters_page& counters) {
  constexpr int64_t kSlack = 2 * kSecond;
  if (!is_of_this_boot(header)) return false;
  const auto boot = static_cast<int64_t>(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME));
  const int64_t tick = kSecond / sysconf(_SC_CLK_TCK);
  if (time_ns < boot + static_cast<int64_t>(header.process_start_time) * tick - kSlack)
    return false;
  if (state_of(header, counters) == LogState::kRunning) return true;
  const uint64_t ran = counters.end_monotonic_ns - header.start_monotonic_ns;
  const int64_t end = counters.end_monotonic_ns != 0
                          ? static_cast<int64_t>(header.start_realtime_ns + ran)
                          : state_of_file(log).modified_ns;
  return time_ns <= end + kSlack;
}

/// What a line says of its code: function, and file and line if they are told.
DwarfFrame perf_map_frame(std::string_view text) {
  DwarfFrame frame;
  for (const std::string_view of_v8 : {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"}) {
    if (!text.starts_with(of_v8)) continue;
    text.remove_prefix(of_v8.size());
    // How far the code is optimised.
    text.remove_prefix(std::min(text.find_first_not_of("~^*+'"), text.size()));
    frame = script_frame(text);
    frame.source = NameSource::kPerfMap;
    return frame;
  }
  // Of Java and C# without types: "long T.take(int)", "void [lib] T::take(int)[OptimizedTier1]".
  const size_t parameters = text.find('(');
  if (parameters != text.npos && parameters > 0) {
    text = text.substr(0, parameters);
    text.remove_prefix(text.rfind(' ') + 1);  // npos + 1: nothing
  }
  frame.function = text;
  frame.source = NameSource::kPerfMap;
  return frame;
}

}  // namespace

void read_perf_map(const std::string& log, const gpupeak_file_header& header,
                   const gpupeak_counters_page& counters, const Definitions& definitions,
                   SymbolTable& symbols) {
  constexpr uint64_t kMostBytes = 256 << 20;
  constexpr uint64_t kMostHits = 1 << 24;  // pieces of code do not overlap much
  struct stat status {};
  const Descriptor file =
      open_regular(fmt::format("/tmp/perf-{}.map", header.pid), O_RDONLY | O_NOFOLLOW, status);
  if (!file || status.st_uid != geteuid() || (status.st_mode & S_IWOTH) != 0) return;
  const int64_t written = status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec;
  if (!ran_at(written, log, header, counters)) return;
  // Return addresses point behind their calls.
  std::map<uint64_t, NamesOfCode> wanted;  // by address
  for (const StackNode& node : definitions.nodes()) {
    if (node.module == 0 && node.ip != 0 && definitions.python_frame(node) == nullptr)
      wanted.try_emplace(node.ip - 1);
  }
  if (wanted.empty()) return;
  const std::optional<std::string> content = read_regular(file, status, kMostBytes);
  std::string_view rest = content ? std::string_view(*content) : std::string_view();
  for (uint64_t hits = 0; !rest.empty() && hits < kMostHits;) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::optional<uint64_t> begin = take_hex(line);
    const std::optional<uint64_t> bytes = begin ? take_hex(line) : std::nullopt;
    // CPython's own ("-X perf") name what its frames tell with their lines.
    if (!bytes || line.starts_with("py::")) continue;
    auto at = wanted.lower_bound(*begin);
    if (at == wanted.end() || at->first - *begin >= *bytes) continue;
    const DwarfFrame frame = perf_map_frame(line.substr(0, 1024));
    for (; at != wanted.end() && at->first - *begin < *bytes; ++at, ++hits) at->second.add(frame);
  }
  for (const auto& [address, names] : wanted) {
    if (std::optional<DwarfFrame> frame = names.frame())
      symbols.add(definitions.modules()[0], address, {*std::move(frame)});
  }
}

}  // namespace gpupeak::collector
