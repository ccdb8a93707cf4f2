#include "collector/write/page_parts.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/summary/site_title.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/write/use_words.h"

namespace gpupeak::collector {
namespace {

// Reads a source file that a log names, to show its lines. A log can name any file, so only a file
// with a name like source is read, of bounded size, and only if it is as it was at a given time.
struct SourceFile {
  enum class State {
    kAbsent,   ///< not there, or not read
    kChanged,  ///< written, renamed or put there after that time
    kOriginal,
  };
  State state = State::kAbsent;
  std::vector<std::string> lines;  ///< tabs made blanks, safe to show, cut to a bounded length
};

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

/// `until_ns`: since 1970, when the program was built from the file. `root` is put before the path.
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

class PageArenas {
 public:
  PageArenas(const ArenaHistory& history, const std::function<uint32_t(const std::string&)>& string)
      : history_(history), string_(string), levels_(history.arenas.size()) {
    base_ = UINT64_MAX;
    for (const auto& segment : history.segments) base_ = std::min(base_, segment.begin);
    for (const auto& block : history.blocks) base_ = std::min(base_, block.address);
    for (const auto& run : history.several) {
      if (run.end > 0) base_ = std::min(base_, run.begin);
    }
  }

  Json make(const TimeSeries& times) {
    Json json = object("every, base", history_.every, fmt::format("{:#x}", base_));
    json["list"] = Json::array();
    for (const ArenaHistory::Arena& arena : history_.arenas)
      json["list"].push_back(arena_json(arena, times));
    json["rows"] = Json::array();
    for (const std::string& row : history_.rows) json["rows"].push_back(string_(row));
    steps(json);
    extend(json, "segments, blocks", segments(), blocks());
    if (!history_.uses.empty()) json["uses"] = uses();
    extend(json, "several, holes, levels", several(), holes(), levels());
    return json;
  }

 private:
  Json arena_json(const ArenaHistory::Arena& arena, const TimeSeries& times) const {
    Json json = object(
        "name, place, peak, peak_ns, reserved_peak, largest_block, largest_refused, has_older",
        arena.name, arena.place, arena.peak, arena.peak_ns, arena.reserved_peak,
        arena.largest_block, arena.largest_refused, arena.has_older);
    if (history_.every) return json;
    if (const Series* series = times.arena_in_use(arena.arena))
      json["in_use"] = object("changes", series_changes(*series));
    if (const Series* series = times.pool_reserved(arena.arena))
      json["reserved"] = object("changes", series_changes(*series));
    return json;
  }

  void steps(Json& json) const {
    extend(json, "times, reasons", Json::array(), Json::array());
    int64_t last = 0;
    for (size_t i = 0; i < history_.steps.size(); ++i) {
      const ArenaHistory::Step& step = history_.steps[i];
      json["times"].push_back(step.time_ns - last);
      last = step.time_ns;
      if (!step.reason.empty()) json["reasons"].push_back({i, string_(step.reason)});
    }
  }

  /// Steps since `last`, which then becomes `step`.
  static int64_t further(uint32_t step, uint32_t& last) {
    const int64_t by = int64_t{step} - last;
    last = step;
    return by;
  }

  Json segments() const {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Segment& segment : history_.segments) {
      flat.insert(flat.end(),
                  {segment.arena, segment.begin - base_, segment.bytes, segment.captured ? 1 : 0,
                   further(segment.first, last), segment.end - segment.first});
    }
    return flat;
  }

  Json blocks() const {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Block& block : history_.blocks) {
      if (block.end == block.first) continue;  // it came and went within one step
      const bool alone = block.segment == ArenaHistory::Block::kAlone;
      flat.insert(flat.end(),
                  {alone ? -1 - int64_t{block.arena} : int64_t{block.segment},
                   block.address - (alone ? base_ : history_.segments[block.segment].begin),
                   block.bytes, block.row, further(block.first, last), block.end - block.first});
    }
    return flat;
  }

  /// For each block in blocks(): -1 (not known), 0 (not seen used), or 1 and four times in ns: the
  /// first use since the block's first step; since the first use, the last one and the begin of the
  /// longest while without use; the length of that while.
  Json uses() const {
    Json flat = Json::array();
    for (size_t i = 0; i < history_.blocks.size(); ++i) {
      const ArenaHistory::Block& block = history_.blocks[i];
      const ArenaHistory::Uses& uses = history_.uses[i];
      if (block.end == block.first) continue;
      if (!uses.is_known || uses.count == 0) {
        flat.push_back(uses.is_known ? 0 : -1);
        continue;
      }
      flat.insert(flat.end(),
                  {1, uses.first_ns - history_.steps[block.first].time_ns,
                   uses.last_ns - uses.first_ns, uses.idle_since_ns - uses.first_ns, uses.idle_ns});
    }
    return flat;
  }

  Json several() const {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Several& run : history_.several) {
      flat.insert(flat.end(),
                  {further(run.step, last), run.arena, run.end > 0 ? run.begin - base_ : 0,
                   run.end - run.begin, run.bytes, run.count});
    }
    return flat;
  }

  Json holes() const {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Holes& holes : history_.holes) {
      flat.insert(flat.end(),
                  {further(holes.step, last), holes.arena, holes.largest, holes.below_block,
                   holes.below_refused, holes.left_out_segments, holes.left_out_bytes});
    }
    return flat;
  }

  Json levels() {
    Json flat = Json::array();
    uint32_t last = 0;
    for (const ArenaHistory::Level& level : history_.levels) {
      ArenaHistory::Level& before = levels_[level.arena];
      flat.insert(flat.end(), {further(level.step, last), level.arena,
                               static_cast<int64_t>(level.in_use - before.in_use),
                               static_cast<int64_t>(level.reserved - before.reserved)});
      before = level;
    }
    return flat;
  }

  const ArenaHistory& history_;
  const std::function<uint32_t(const std::string&)>& string_;
  uint64_t base_;
  std::vector<ArenaHistory::Level> levels_;  // by arena: its last level so far
};

}  // namespace

Json page_arenas(const ArenaHistory& history, const TimeSeries& times,
                 const std::function<uint32_t(const std::string&)>& string) {
  if (history.arenas.empty()) return nullptr;
  return PageArenas(history, string).make(times);
}

Json series_changes(const Series& series) {
  Json changes = Json::array();
  size_t last = 0;
  const SeriesBucket* before = nullptr;
  for (size_t i = 0; i < series.buckets.size(); ++i) {
    const SeriesBucket& bucket = series.buckets[i];
    if (before != nullptr && before->max == bucket.max && before->min == bucket.min) continue;
    before = &bucket;
    const size_t at = series.first_bucket + i;
    Json change = {at - last, bucket.max};
    if (bucket.min != bucket.max) change.push_back(bucket.min);
    changes.push_back(std::move(change));
    last = at;
  }
  return changes;
}

namespace {

size_t place_of(UseAtPeak use) {
  size_t place = 0;
  while (kUses[place].use != use) ++place;
  return place;
}

}  // namespace

Json page_uses(Profile& profile, const LastUses& uses, size_t top,
               const std::function<uint32_t(const std::string&)>& string) {
  Json json = object("note, notes", kUsedNote, use_notes(uses));
  json["names"] = array_of(kUses, [&](const UseName& use) {
    return Json::array({use.name, use.text, use.when});
  });
  json["devices"] = Json::object();
  for (const LastUse& of : uses.devices) {
    Json device = object("idle_bytes", of.idle_bytes);
    for (const UseName& use : kUses) device["bytes"].push_back(bytes_of(of, use.use));
    Json flat = Json::array();
    uint64_t other_bytes = 0, other_rows = 0, shown = 0;
    for (const UseRow& row : use_rows(profile, of)) {
      if (shown++ >= top) {
        other_bytes += row.bytes;
        ++other_rows;
        continue;
      }
      flat.insert(flat.end(), {place_of(row.use), string(row.title), string(row.kind), row.bytes,
                               row.blocks, row.shortest_ns, row.longest_ns});
    }
    extend(device, "rows, other_bytes, other_rows", std::move(flat), other_bytes, other_rows);
    json["devices"][profile.scope_info(of.scope).name] = std::move(device);
  }
  return json;
}

Json page_buffers(const std::vector<Peak>& peaks,
                  const std::function<uint32_t(const std::string&)>& string) {
  Json all = Json::object();
  for (const Peak& peak : peaks) {
    Json rows = Json::array();
    bool sampled = false;
    for (const Holder& row : peak.holders) {
      if (!row.role || !row.role->allocated_ns) continue;
      const BufferRole& role = *row.role;
      sampled |= role.launches_sampled;
      Json uses = Json::array();
      for (const RoleUse& use : role_uses(role))
        uses.insert(uses.end(), {string(std::string(use.verb)), string(use.kernel), use.count});
      rows.push_back(object("title, bytes, count, uses, unused, allocated, first, last, freed",
                            string(row.title), row.bytes, row.count, std::move(uses),
                            role.unused_bytes, role.allocated_ns, role.first_use_ns,
                            role.last_use_ns, role.freed_ns));
    }
    if (rows.empty()) continue;
    all[peak.scope] = object("note, sampled, rows", role_note(peak, peak.holders.size()), sampled,
                             std::move(rows));
  }
  return all;
}

namespace {

constexpr int kLinesAround = 4;
constexpr size_t kMostFiles = 100, kMostText = 256 << 10;

/// Whether the log was made here: on another machine or in another container this name may be of
/// another file.
bool is_of_this_machine(const Profile& profile) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  struct stat space {};
  const uint64_t theirs = profile.log().header().pid_namespace;
  const bool same_container =
      theirs == 0 || (stat("/proc/self/ns/pid", &space) == 0 && space.st_ino == theirs);
  return same_container && profile.definitions().fact("host") == name.data();
}

}  // namespace

PageSource::PageSource(Profile& profile, const std::vector<ScopeId>& scopes) : profile_(profile) {
  const bool elsewhere = profile.symbolizer().root().empty() && !is_of_this_machine(profile);
  if (elsewhere || profile.definitions().sanitizer().is_confidential()) return;
  for (const ScopeId scope : scopes) add(profile.at_peak(scope));
  std::vector<std::pair<uint64_t, uint32_t>> order;
  for (uint32_t id = 0; id < files_.size(); ++id) {
    uint64_t most = 0;
    for (const auto& [line, bytes] : files_[id].held) most = std::max(most, bytes);
    order.emplace_back(most, id);
  }
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (order.size() > kMostFiles) order.resize(kMostFiles);
  size_t text_left = kMostText;
  for (const auto& [bytes, id] : order) read(files_[id], text_left);
}

void PageSource::add(const std::vector<Contribution>& held) {
  for (const Contribution& part : held) {
    for (const Call& call : profile_.calls(profile_.replay().sites().info(part.group).stack))
      note(call);
  }
  const std::vector<uint64_t> bytes = bytes_of_places(held);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (places_[i].line == 0) continue;
    uint64_t& most = files_[places_[i].file].held[places_[i].line];
    most = std::max(most, bytes[i]);
  }
}

void PageSource::note(const Call& call) {
  const Frame& frame = *call.frame;
  if (call.place == 0 || frame.file.empty()) return;
  if (call.place >= places_.size()) places_.resize(call.place + 1);
  const auto [entry, added] =
      file_ids_.try_emplace(frame.file, static_cast<uint32_t>(files_.size()));
  if (added) files_.emplace_back().path = frame.file;
  File& file = files_[entry->second];
  file.is_python |= frame.is_python;
  if (!frame.is_python) file.modules.insert(frame.module);
  places_[call.place] = {entry->second, frame.line};
}

const PageSource::Place* PageSource::place_of(const Call& call) const {
  if (call.place == 0 || call.place >= places_.size()) return nullptr;
  return places_[call.place].line > 0 ? &places_[call.place] : nullptr;
}

/// A stack counts once for a line, however many of its frames are on that line.
std::vector<uint64_t> PageSource::bytes_of_places(const std::vector<Contribution>& held) const {
  std::vector<uint64_t> bytes(places_.size());
  std::vector<size_t> last(places_.size());
  for (size_t i = 0; i < held.size(); ++i) {
    const uint32_t stack = profile_.replay().sites().info(held[i].group).stack;
    for (const Call& call : profile_.calls(stack)) {
      if (place_of(call) == nullptr || std::exchange(last[call.place], i + 1) == i + 1) continue;
      bytes[call.place] += held[i].bytes;
    }
  }
  return bytes;
}

/// The earliest time at which modules of this name were written; none: one of them is not here as
/// it ran.
std::optional<int64_t> PageSource::written_ns(const std::string& module) const {
  std::optional<int64_t> first;
  const std::vector<Module>& modules = profile_.definitions().modules();
  for (uint32_t id = 1; id < modules.size(); ++id) {
    if (escape(file_name(modules[id].path)) != module) continue;
    const std::optional<int64_t> ns = profile_.symbolizer().written_ns(id);
    if (!ns) return std::nullopt;
    first = std::min(first.value_or(*ns), *ns);
  }
  return first;
}

/// The time until which the file had the lines of which the program was made; none: not known. A
/// log that does not begin with its process may begin after Python has read the file.
std::optional<int64_t> PageSource::known_until_ns(const File& file) const {
  const gpupeak_file_header& header = profile_.log().header();
  const bool from_start = (header.flags & (GPUPEAK_FLAG_FORKED | GPUPEAK_FLAG_ATTACHED)) == 0;
  if (file.is_python && !from_start) return std::nullopt;
  auto until = static_cast<int64_t>(header.start_realtime_ns);
  for (const std::string& module : file.modules) {
    const std::optional<int64_t> ns = written_ns(module);
    if (!ns) return std::nullopt;
    until = std::min(until, *ns);
  }
  return until;
}

/// Takes the lines around those that held most, largest first, as long as there is room for text.
void PageSource::read(File& file, size_t& text_left) const {
  if (text_left == 0) return;
  const std::optional<int64_t> until = known_until_ns(file);
  if (!until || file.path.find('\\') != std::string::npos)
    return;  // the name was escaped to be shown, so it names no file
  const SourceFile source = read_source(profile_.symbolizer().root(), file.path, *until);
  const int count = static_cast<int>(source.lines.size());
  file.changed =
      source.state == SourceFile::State::kChanged ||
      (source.state == SourceFile::State::kOriginal && file.held.rbegin()->first > count);
  if (file.changed || source.lines.empty()) return;
  std::vector<std::pair<uint64_t, int>> order;
  for (const auto& [line, bytes] : file.held) order.emplace_back(bytes, line);
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (const auto& [bytes, line] : order) {
    const int end = std::min(line + kLinesAround, count);
    for (int at = std::max(line - kLinesAround, 1); at <= end; ++at) {
      const std::string& text = source.lines[static_cast<size_t>(at) - 1];
      const auto [entry, added] = file.lines.try_emplace(at, text);
      if (added) text_left -= std::min(text_left, text.size());
    }
    if (text_left == 0) return;
  }
}

std::optional<uint32_t> PageSource::file_of(const Frame& frame) const {
  const auto found = file_ids_.find(frame.file);
  if (found == file_ids_.end()) return std::nullopt;
  const File& file = files_[found->second];
  if (!file.changed && !file.lines.contains(frame.line)) return std::nullopt;
  return found->second;
}

Json PageSource::files_json(const std::function<uint32_t(const std::string&)>& string) const {
  Json all = Json::array();
  for (const File& file : files_) {
    Json json = Json::array();
    if (file.changed || !file.lines.empty())
      json.push_back(string(file.path));
    else
      json.push_back(-1);
    int last = -1;
    for (const auto& [line, text] : file.lines) {
      if (line != last + 1) json.push_back(Json::array({line}));
      json.back().push_back(string(text));
      last = line;
    }
    all.push_back(std::move(json));
  }
  return all;
}

Json PageSource::bytes_json(const std::vector<Contribution>& held) const {
  Json all = Json::array();
  const bool any =
      std::ranges::any_of(files_, [](const File& file) { return !file.lines.empty(); });
  if (!any) return all;
  const std::vector<uint64_t> bytes = bytes_of_places(held);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Place& place = places_[i];
    if (bytes[i] == 0 || !files_[place.file].lines.contains(place.line)) continue;
    all.insert(all.end(), {place.file, place.line, bytes[i]});
  }
  return all;
}

}  // namespace gpupeak::collector
