#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>

#include "collector/files/regular_file.h"
#include "collector/log/clock_map.h"
#include "collector/log/log_head.h"
#include "collector/log/symbol_table.h"
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
  DwarfFrame frame{"", "", 0, NameSource::kPerfMap};
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

/// Whether the log's process ran at that time, since 1970. `runs`: it still does.
bool ran_at(int64_t time_ns, bool runs, const std::string& log, const gpupeak_file_header& header,
            const gpupeak_counters_page& counters) {
  constexpr int64_t kSlack = 2 * kSecond;
  if (!runs && !is_of_this_boot(header)) return false;
  const auto boot = static_cast<int64_t>(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME));
  const int64_t tick = kSecond / sysconf(_SC_CLK_TCK);
  if (time_ns < boot + static_cast<int64_t>(header.process_start_time) * tick - kSlack)
    return false;
  if (runs) return true;
  const uint64_t ran = counters.end_monotonic_ns - header.start_monotonic_ns;
  const int64_t end = counters.end_monotonic_ns != 0
                          ? static_cast<int64_t>(header.start_realtime_ns + ran)
                          : state_of_file(log).modified_ns;
  return time_ns <= end + kSlack;
}

/// What a line says of its code: function, and file and line if they are told.
DwarfFrame perf_map_frame(std::string_view text) {
  DwarfFrame frame{"", "", 0, NameSource::kPerfMap};
  for (const std::string_view of_v8 : {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"}) {
    if (!text.starts_with(of_v8)) continue;
    text.remove_prefix(of_v8.size());
    // How far the code is optimised.
    text.remove_prefix(std::min(text.find_first_not_of("~^*+'"), text.size()));
    return script_frame(text);
  }
  // Of Java and C# without types: "long T.take(int)", "void [lib] T::take(int)[OptimizedTier1]".
  const size_t parameters = text.find('(');
  if (parameters != text.npos && parameters > 0) {
    text = text.substr(0, parameters);
    text.remove_prefix(text.rfind(' ') + 1);  // npos + 1: nothing
  }
  frame.function = text;
  return frame;
}

/// The addresses that have no module, and what files say of them.
class CodeNames {
 public:
  explicit CodeNames(const Definitions& definitions) {
    // Return addresses point behind their calls.
    for (const StackNode& node : definitions.nodes()) {
      if (node.module == 0 && node.ip != 0 && definitions.python_frame(node) == nullptr)
        wanted_.try_emplace(node.ip - 1);
    }
  }
  bool is_empty() const { return wanted_.empty(); }
  /// Calls frame(address) for each address within these bytes.
  template <class Frame>
  void add(uint64_t begin, uint64_t bytes, const Frame& frame) {
    for (auto at = wanted_.lower_bound(begin);
         at != wanted_.end() && at->first - begin < bytes && hits_ < kMostHits; ++at, ++hits_)
      at->second.add(frame(at->first));
  }
  void put_into(SymbolTable& symbols, const Module& unknown) const {
    for (const auto& [address, names] : wanted_) {
      if (std::optional<DwarfFrame> frame = names.frame())
        symbols.add(unknown, address, {*std::move(frame)});
    }
  }

 private:
  static constexpr uint64_t kMostHits = 1 << 24;  // pieces of code do not overlap much

  std::map<uint64_t, NamesOfCode> wanted_;  // by address
  uint64_t hits_ = 0;
};

/// What the program registered for debuggers (GDB's JIT interface): facts "symbol.0" with address,
/// size and name.
void read_registered(const Definitions& definitions, CodeNames& names) {
  for (const auto& [key, value] : definitions.facts()) {
    if (key != "symbol.0") continue;
    char* end = nullptr;
    const uint64_t begin = strtoul(value.c_str(), &end, 10), bytes = strtoul(end, &end, 10);
    if (*end != ' ' || end[1] == 0) continue;
    // numba marks versions and options of a function in this way.
    std::string name = demangle(end + 1);
    for (size_t at = 0, to = 0;
         (at = name.find("[abi:")) != name.npos && (to = name.find(']', at)) != name.npos;)
      name.erase(at, to + 1 - at);
    names.add(begin, bytes, [&](uint64_t) {
      return DwarfFrame{name, "", 0, NameSource::kPerfMap};
    });
  }
}

void read_perf_map(std::string_view rest, CodeNames& names) {
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::optional<uint64_t> begin = take_hex(line);
    const std::optional<uint64_t> bytes = begin ? take_hex(line) : std::nullopt;
    // CPython's own ("-X perf") name what its frames tell with their lines.
    if (!bytes || line.starts_with("py::")) continue;
    names.add(*begin, *bytes, [&](uint64_t) { return perf_map_frame(line.substr(0, 1024)); });
  }
}

// The records of a jitdump (tools/perf/Documentation/jitdump-specification.txt of Linux): a piece
// of code with its name and its bytes, and before it, if the runtime tells, where its lines begin.

struct JitDumpHeader {
  uint32_t magic, version, bytes, machine, padding, pid;
  uint64_t timestamp, flags;
};
struct JitRecord {
  uint32_t id, bytes;
  uint64_t timestamp;
};
struct JitCode {
  uint32_t pid, thread;
  uint64_t vma, begin, bytes, index;
};
struct JitLines {
  uint64_t begin, count;
};
struct JitLine {
  uint64_t address;
  uint32_t line, discriminator;
};

/// Takes a T off the front.
template <class T>
std::optional<T> take(std::string_view& bytes) {
  T value;
  if (bytes.size() < sizeof value) return std::nullopt;
  memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

/// Takes a text that ends in a 0 off the front.
std::string_view take_text(std::string_view& bytes) {
  const std::string_view text = bytes.substr(0, bytes.find('\0'));
  bytes.remove_prefix(std::min(text.size() + 1, bytes.size()));
  return text;
}

/// File and line of code that begins at an address.
using Lines = std::map<uint64_t, std::pair<std::string_view, uint32_t>>;

Lines lines_of(std::string_view record, uint64_t count) {
  Lines lines;
  std::string_view file;
  for (uint64_t i = 0; i < count; ++i) {
    const std::optional<JitLine> line = take<JitLine>(record);
    if (!line) break;
    const std::string_view text = take_text(record);
    if (text != "\xff") file = text;  // else the same as before
    lines[line->address] = {file, line->line};
  }
  return lines;
}

void read_jit_dump(std::string_view rest, uint32_t pid, CodeNames& names) {
  constexpr uint32_t kMagic = 0x4a695444, kLoad = 0, kLines = 2;
  const std::optional<JitDumpHeader> header = take<JitDumpHeader>(rest);
  if (!header || header->magic != kMagic || header->pid != pid || header->bytes < sizeof *header ||
      header->bytes - sizeof *header > rest.size())
    return;
  rest.remove_prefix(header->bytes - sizeof *header);
  std::pair<uint64_t, Lines> last;  // of the code that comes next
  while (const std::optional<JitRecord> head = take<JitRecord>(rest)) {
    if (head->bytes < sizeof *head || head->bytes - sizeof *head > rest.size()) return;
    std::string_view record = rest.substr(0, head->bytes - sizeof *head);
    rest.remove_prefix(record.size());
    if (head->id == kLines) {
      if (const auto of = take<JitLines>(record)) last = {of->begin, lines_of(record, of->count)};
    } else if (const auto code = head->id == kLoad ? take<JitCode>(record) : std::nullopt) {
      const std::string_view name = take_text(record);
      names.add(code->begin, code->bytes, [&](uint64_t address) {
        DwarfFrame frame = perf_map_frame(name.substr(0, 1024));
        const auto behind = last.second.upper_bound(address);
        // V8's names have the file, and its lines no file that can be read.
        if (!frame.file.empty() || last.first != code->begin || behind == last.second.begin())
          return frame;
        frame.file = std::prev(behind)->second.first;
        frame.line = static_cast<int>(std::prev(behind)->second.second);
        return frame;
      });
    }
  }
}

/// Where runtimes put a process's jitdump: V8 into the current folder; Java's agent of perf, LLVM
/// and Julia below $JITDUMPDIR or the home.
std::vector<std::string> jit_dumps_of(uint32_t pid, const std::string& root,
                                      const Definitions& definitions) {
  const std::string name = fmt::format("jit-{}.dump", pid);
  std::vector<std::string> paths;
  if (const std::string_view cwd = definitions.fact("cwd"); !cwd.empty())
    paths.push_back(fmt::format("{}{}/{}", root, cwd, name));
  for (const char* variable : {"JITDUMPDIR", "HOME"}) {
    const char* const place = getenv(variable);
    if (place == nullptr) continue;
    std::error_code error;
    for (std::filesystem::directory_iterator at(fmt::format("{}/.debug/jit", place), error), end;
         !error && at != end; at.increment(error))
      paths.push_back((at->path() / name).string());
  }
  return paths;
}

}  // namespace

void read_code_names(const std::string& log, const gpupeak_file_header& header,
                     const gpupeak_counters_page& counters, const Definitions& definitions,
                     SymbolTable& symbols) {
  constexpr uint64_t kMostOfFile = 256 << 20;
  CodeNames names(definitions);
  if (names.is_empty()) return;
  read_registered(definitions, names);
  // Of a process that runs its own files are read, since a container has its own /tmp.
  const std::string process =
      state_of(header, counters) == LogState::kEnded ? "" : folder_of_process(header);
  const std::string root = process.empty() ? "" : process + "/root";
  const auto read = [&](const std::string& path, const auto& parse) {
    struct stat status {};
    const Descriptor file = open_regular(path, O_RDONLY | O_NOFOLLOW, status);
    if (!file || status.st_uid != geteuid() || (status.st_mode & S_IWOTH) != 0) return;
    const int64_t written = status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec;
    if (!ran_at(written, !root.empty(), log, header, counters)) return;
    if (const auto content = read_regular(file, status, kMostOfFile)) parse(*content);
  };
  read(fmt::format("{}/tmp/perf-{}.map", root, header.pid),
       [&](std::string_view content) { read_perf_map(content, names); });
  for (const std::string& path : jit_dumps_of(header.pid, root, definitions))
    read(path, [&](std::string_view content) { read_jit_dump(content, header.pid, names); });
  names.put_into(symbols, definitions.modules()[0]);
}

}  // namespace gpupeak::collector
