#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "collector/analyze/call_tree.h"
#include "collector/files/regular_file.h"
#include "collector/log/kinds.h"
#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/summary/verdict.h"
#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"
#include "collector/text/title_text.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxLanes = 12;
/// Rows of scopes of all kinds together (is_main()), and of scopes of one kind.
constexpr size_t kMainRows = 400, kOtherRows = 100;
constexpr size_t kMainCalls = 4000, kOtherCalls = 1000;
constexpr size_t kListRows = 200;
constexpr size_t kHoldersOfInstant = 10;

/// Gives the number of a text.
using Numbered = std::function<uint32_t(const std::string&)>;

/// Texts by number, since names repeat a lot.
class Strings {
 public:
  uint32_t id(const std::string& text) {
    const auto [entry, added] = ids_.try_emplace(text, static_cast<uint32_t>(list_.size()));
    if (added) list_.push_back(text);
    return entry->second;
  }
  /// The number of a call's place. Places on different lines of source have different numbers, even
  /// if their texts are equal.
  uint32_t place_id(const std::string& text, uint32_t file, int line) {
    const auto [entry, added] =
        place_ids_.try_emplace({file, line, text}, static_cast<uint32_t>(list_.size()));
    if (added) list_.push_back(text);
    return entry->second;
  }
  Json json() const { return list_; }
  /// For each place [number of its text, file, line…].
  Json places_json() const {
    Json all = Json::array();
    for (const auto& [place, id] : place_ids_)
      all.insert(all.end(), {id, std::get<0>(place), std::get<1>(place)});
    return all;
  }

 private:
  std::unordered_map<std::string, uint32_t> ids_;
  std::map<std::tuple<uint32_t, int, std::string>, uint32_t> place_ids_;
  std::vector<std::string> list_;
};

/// The buckets that differ from the one before, each as [buckets since the last one listed, max,
/// min]; min is left out if it equals max.
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

/// Rows of numbers, one behind the other.
struct Flat {
  Json json = Json::array();
  uint32_t last = 0;  ///< the step of the row before

  void add(const auto&... values) { json.insert(json.end(), {Json(values)...}); }
  /// Steps since the row before.
  int64_t further(uint32_t step) { return int64_t{step} - std::exchange(last, step); }
};

/// The inside of arenas over time. Each list is one row of numbers: the fields below, then those of
/// the next entry. Steps and times are differences from the entry before, addresses are relative to
/// `base`.
///
///   segments   arena, address, bytes, captured, first step, steps
///   blocks     segment (-1 - arena: in none), address in it, bytes, row, first step, steps
///   uses       for each block: -1 (not known), 0 (not seen used), or 1 and four times in ns
///   several    step, arena, address, span, bytes, count
///   holes      step, arena, largest, below the largest block, below the largest refused request,
///              segments left out, their bytes
///   levels     step, arena, in use, reserved (both: difference from the level before)
class PageArenas {
 public:
  PageArenas(const ArenaHistory& history, const Numbered& string)
      : history_(history), string_(string), levels_(history.arenas.size()) {
    for (const auto& segment : history.segments) base_ = std::min(base_, segment.begin);
    for (const auto& block : history.blocks) base_ = std::min(base_, block.address);
    for (const auto& run : history.several) {
      if (run.end > 0) base_ = std::min(base_, run.begin);
    }
  }

  Json make(const TimeSeries& times) {
    Json json = object("every, base", history_.every, fmt::format("{:#x}", base_));
    json["list"] = array_of(history_.arenas, [&](const ArenaHistory::Arena& arena) {
      return arena_json(arena, times);
    });
    json["rows"] = array_of(history_.rows, string_);
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

  Json segments() const {
    Flat flat;
    for (const ArenaHistory::Segment& segment : history_.segments)
      flat.add(segment.arena, segment.begin - base_, segment.bytes, segment.captured ? 1 : 0,
               flat.further(segment.first), segment.end - segment.first);
    return flat.json;
  }

  Json blocks() const {
    Flat flat;
    for (const ArenaHistory::Block& block : history_.blocks) {
      if (block.end == block.first) continue;  // it came and went within one step
      const bool alone = block.segment == ArenaHistory::Block::kAlone;
      flat.add(alone ? -1 - int64_t{block.arena} : int64_t{block.segment},
               block.address - (alone ? base_ : history_.segments[block.segment].begin),
               block.bytes, block.row, flat.further(block.first), block.end - block.first);
    }
    return flat.json;
  }

  /// For each block in blocks(): -1 (not known), 0 (not seen used), or 1 and four times in ns: the
  /// first use since the block's first step; since the first use, the last one and the begin of the
  /// longest while without use; the length of that while.
  Json uses() const {
    Flat flat;
    for (size_t i = 0; i < history_.blocks.size(); ++i) {
      const ArenaHistory::Block& block = history_.blocks[i];
      const ArenaHistory::Uses& uses = history_.uses[i];
      if (block.end == block.first) continue;
      if (!uses.is_known || uses.count == 0)
        flat.add(uses.is_known ? 0 : -1);
      else
        flat.add(1, uses.first_ns - history_.steps[block.first].time_ns,
                 uses.last_ns - uses.first_ns, uses.idle_since_ns - uses.first_ns, uses.idle_ns);
    }
    return flat.json;
  }

  Json several() const {
    Flat flat;
    for (const ArenaHistory::Several& run : history_.several)
      flat.add(flat.further(run.step), run.arena, run.end > 0 ? run.begin - base_ : 0,
               run.end - run.begin, run.bytes, run.count);
    return flat.json;
  }

  Json holes() const {
    Flat flat;
    for (const ArenaHistory::Holes& holes : history_.holes)
      flat.add(flat.further(holes.step), holes.arena, holes.largest, holes.below_block,
               holes.below_refused, holes.left_out_segments, holes.left_out_bytes);
    return flat.json;
  }

  Json levels() {
    Flat flat;
    for (const ArenaHistory::Level& level : history_.levels) {
      const ArenaHistory::Level before = std::exchange(levels_[level.arena], level);
      flat.add(flat.further(level.step), level.arena,
               static_cast<int64_t>(level.in_use - before.in_use),
               static_cast<int64_t>(level.reserved - before.reserved));
    }
    return flat.json;
  }

  const ArenaHistory& history_;
  const Numbered& string_;
  uint64_t base_ = UINT64_MAX;
  std::vector<ArenaHistory::Level> levels_;  // by arena: its last level so far
};

size_t place_of(UseAtPeak use) {
  return static_cast<size_t>(std::ranges::find(kUses, use, &UseName::use) - std::begin(kUses));
}

/// When the blocks that were live at each device's peak were used, and the words for uses at any
/// instant.
///
///   names    for each use [name, text at the peak, text at an instant]; other lists have its index
///   note     stands below a column of uses
///   notes    what a use is, and what is not seen
///   devices  by scope: bytes [of each use], idle_bytes; rows [use, title, kind, bytes, blocks,
///            shortest ns, longest ns …], largest first; other_bytes, other_rows
Json page_uses(Profile& profile, const LastUses& uses, size_t top, const Numbered& string) {
  Json json = object("note, notes", kUsedNote, use_notes(uses));
  json["names"] = array_of(kUses, [&](const UseName& use) {
    return Json::array({use.name, use.text, use.when});
  });
  json["devices"] = Json::object();
  for (const LastUse& of : uses.devices) {
    Json device = object("idle_bytes", of.idle_bytes);
    for (const UseName& use : kUses) device["bytes"].push_back(bytes_of(of, use.use));
    Flat flat;
    const std::vector<UseRow> all = use_rows(profile, of);
    const TopRows rows(all, top);
    for (const UseRow& row : rows.shown)
      flat.add(place_of(row.use), string(row.title), string(row.kind), row.bytes, row.blocks,
               row.shortest_ns, row.longest_ns);
    extend(device, "rows, other_bytes, other_rows", flat.json, rows.other_bytes, rows.others);
    json["devices"][profile.scope_info(of.scope).name] = std::move(device);
  }
  return json;
}

/// "16.0 GiB  map main.c:7  (100 MiB resident)": the host's rows of which not all was resident.
Json page_touched(const std::vector<Peak>& peaks, const Metrics& metrics) {
  Json rows = Json::array();
  for (const Peak& peak : peaks) {
    if (peak.scope != "host") continue;
    for (const Holder* row : rows_by_resident(peak, metrics)) {
      const std::string mark = resident_mark(*row, metrics, {});
      if (!mark.empty()) rows.push_back(size_text(row->bytes, {}) + "  " + row->title + mark);
    }
  }
  return rows;
}

/// What the memory of each device's peak was used for. By scope, of those whose rows say it: the
/// rows that do, largest first, blocks that are used alike a row each. Times are in ns, null: not
/// known. `uses`: of each RoleUse the numbers of its two texts, and its count.
Json page_buffers(const std::vector<Peak>& peaks, const Numbered& string) {
  Json all = Json::object();
  for (const Peak& peak : peaks) {
    Json rows = Json::array();
    bool sampled = false;
    const auto add = [&](const std::string& title, const BlocksAlike& blocks) {
      const BufferRole& role = blocks.role;
      sampled |= role.launches_sampled;
      Json uses = Json::array();
      for (const RoleUse& use : role_uses(role))
        uses.insert(uses.end(), {string(std::string(use.verb)), string(use.kernel), use.count});
      rows.push_back(object("title, bytes, count, uses, unused, allocated, first, last, freed",
                            string(title), blocks.bytes, blocks.count, std::move(uses),
                            role.unused_bytes, role.allocated_ns, role.first_use_ns,
                            role.last_use_ns, role.freed_ns));
    };
    for (const Holder& row : peak.holders) {
      if (!row.role || !row.role->allocated_ns) continue;
      if (row.role->alike.empty()) add(row.title, {row.bytes, row.count, *row.role});
      for (const BlocksAlike& blocks : row.role->alike) add(row.title, blocks);
    }
    if (rows.empty()) continue;
    all[peak.scope] = object("note, sampled, rows", role_note(peak, peak.holders.size()), sampled,
                             std::move(rows));
  }
  return all;
}

// Reads a source file that a log names, to show its lines. A log can name any file, so only a file
// with a name like source is read, of bounded size, and only if it is as it was at a given time.

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

/// The lines of source that a page shows beside its calls, with what each line held at the peaks.
/// Lines are shown only if the file is as it was when the program was built (Python: when it ran).
/// Of other files the page says that they have changed.
class PageSource {
 public:
  /// Reads the files whose lines held most of the `scopes`' peaks. Reads none for a confidential
  /// report, nor for a log of another machine or container without a root for its files.
  PageSource(Profile& profile, const std::vector<ScopeId>& scopes) : profile_(profile) {
    const bool elsewhere = profile.symbolizer().root().empty() && !is_of_this_machine(profile);
    if (elsewhere || profile.definitions().sanitizer().is_confidential()) return;
    for (const ScopeId scope : scopes) add(profile.at_peak(scope));
    std::vector<std::pair<uint64_t, File*>> order;
    for (File& file : files_)
      order.emplace_back(most_of(file.held, [](const auto& of) { return of.second; }), &file);
    std::ranges::stable_sort(order, std::greater(), &std::pair<uint64_t, File*>::first);
    if (order.size() > kMostFiles) order.resize(kMostFiles);
    size_t text_left = kMostText;
    for (const auto& [bytes, file] : order) read(*file, text_left);
  }

  /// The number of a call's file; none if its line is not shown and the file has not changed.
  std::optional<uint32_t> file_of(const Frame& frame) const {
    const auto found = file_ids_.find(frame.file);
    if (found == file_ids_.end()) return std::nullopt;
    const File& file = files_[found->second];
    if (!file.changed && !file.lines.contains(frame.line)) return std::nullopt;
    return found->second;
  }
  /// For each file [path, piece, piece…]. A piece is the number of its first line, then its lines.
  /// Paths and lines are numbers of texts. A file without pieces has changed; one with path -1 is
  /// not shown.
  Json files_json(const Numbered& string) const {
    Json all = Json::array();
    for (const File& file : files_) {
      const bool is_shown = file.changed || !file.lines.empty();
      Json json = Json::array({is_shown ? Json(string(file.path)) : Json(-1)});
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
  /// [file, line, bytes…]: what each shown line held of a sum, with all that it called.
  Json bytes_json(const std::vector<Contribution>& held) const {
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

 private:
  struct File {
    std::string path;
    bool is_python = false;
    std::set<std::string> modules;  ///< modules that have code of this file
    std::map<int, uint64_t> held;   ///< by line: the most that it held in any scope
    bool changed = false;
    std::map<int, std::string> lines;  ///< text of the lines that are shown, by number
  };
  struct Place {
    uint32_t file = 0;
    int line = 0;
  };

  void add(const std::vector<Contribution>& held) {
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
  /// A stack counts once for a line, however many of its frames are on that line.
  std::vector<uint64_t> bytes_of_places(const std::vector<Contribution>& held) const {
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
  const Place* place_of(const Call& call) const {
    if (call.place == 0 || call.place >= places_.size()) return nullptr;
    return places_[call.place].line > 0 ? &places_[call.place] : nullptr;
  }
  void note(const Call& call) {
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
  /// The time until which the file had the lines of which the program was made; none: not known. A
  /// log that does not begin with its process may begin after Python has read the file.
  std::optional<int64_t> known_until_ns(const File& file) const {
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
  /// The earliest time at which modules of this name were written; none: one of them is not here as
  /// it ran.
  std::optional<int64_t> written_ns(const std::string& module) const {
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
  /// Takes the lines around those that held most, largest first, as long as there is room for text.
  void read(File& file, size_t& text_left) const {
    if (text_left == 0) return;
    const std::optional<int64_t> until = known_until_ns(file);
    if (!until || file.path.find('\\') != std::string::npos)
      return;  // the name was escaped to be shown, so it names no file
    if (!is_fixed_place(file.path) || !is_named_as_source(file.path)) return;
    const std::string path = profile_.symbolizer().root() + file.path;
    const std::optional<std::string> content = read_regular(path, kMostBytes);
    if (!content) return;
    // Checked after reading, so that a file that is written meanwhile counts as changed.
    const FileState state = state_of_file(path);
    const std::vector<std::string> lines = lines_of(*content);
    const int count = static_cast<int>(lines.size());
    file.changed = state.bytes != content->size() || state.modified_ns > *until ||
                   state.changed_ns > *until || file.held.rbegin()->first > count;
    if (file.changed || lines.empty()) return;
    std::vector<std::pair<uint64_t, int>> order;
    for (const auto& [line, bytes] : file.held) order.emplace_back(bytes, line);
    std::ranges::stable_sort(order, std::greater(), &std::pair<uint64_t, int>::first);
    for (const auto& [bytes, line] : order) {
      const int end = std::min(line + kLinesAround, count);
      for (int at = std::max(line - kLinesAround, 1); at <= end; ++at) {
        const std::string& text = lines[static_cast<size_t>(at) - 1];
        const auto [entry, added] = file.lines.try_emplace(at, text);
        if (added) text_left -= std::min(text_left, text.size());
      }
      if (text_left == 0) return;
    }
  }

  Profile& profile_;
  std::vector<File> files_;
  std::unordered_map<std::string, uint32_t> file_ids_;
  std::vector<Place> places_;  ///< by Call::place; line 0: not seen
};

class PageData {
 public:
  PageData(Profile& profile, const TimeSeries& times, const PageLog& log, bool with_source,
           Complete complete)
      : profile_(profile),
        times_(times),
        instants_(log.instants),
        arenas_(log.arenas),
        uses_(log.uses),
        ages_(log.ages),
        run_(log.run),
        complete_(complete),
        source_(profile, with_source ? sums(profile) : std::vector<ScopeId>()) {
    for (const Grouping& grouping : kGroupings) {
      if (grouping.by == GroupBy::kIp) continue;  // the flame graph shows instructions
      attributions_.emplace_back(profile.replay(), profile.titles(), grouping.by,
                                 &profile.tagger());
    }
  }

  std::string make() {
    Options options;
    options.top = kListRows;
    options.stacks = false;
    options.reading.sanitizer = profile_.definitions().sanitizer();
    Summary summary = summarize(profile_, options);
    if (complete_ != nullptr) {
      LogReader log(profile_.path(), options.reading.sanitizer, HeapReading::kNone);
      complete_(summary, log, options, {});
    }
    if (run_) summary.quality = run_->quality;
    Json touched = page_touched(summary.peaks, summary.metrics);
    const Json verdict = verdict_json(run_ ? *run_ : summary);
    const std::vector<Holder> temporaries = std::move(summary.temporaries);
    const std::vector<Peak> peaks = std::exchange(summary.peaks, {});  // the key "scopes" has them
    summary.live_at_exit.clear();
    summary.temporaries.clear();
    Json json =
        object("log, log_bytes, verdict, summary, time, series", summary.log_path,
               summary.log_bytes, verdict, summary_json(summary), time_json(), series_json());
    json["scopes"] = scopes_json();  // these number texts in their order
    json["phases"] = phases_json();
    json["instants"] = instants_json();
    json["stacked"] = stacked_json();
    const auto string = [this](const std::string& text) { return strings_.id(text); };
    json["pools"] =
        arenas_.arenas.empty() ? Json(nullptr) : PageArenas(arenas_, string).make(times_);
    json["uses"] = uses_ ? page_uses(profile_, *uses_, kMainRows, string) : Json(nullptr);
    for (const Ages& ages : ages_)
      json["ages"][profile_.scope_info(ages.scope).name] = ages_json(ages);
    json["buffers"] = page_buffers(peaks, string);
    json["touched"] = std::move(touched);
    json["live_at_exit"] = leaks_json();
    json["temporaries"] = rows_json(temporaries);
    json["files"] = source_.files_json(string);
    json["places"] = strings_.places_json();
    json["strings"] = strings_.json();  // last, since all other keys add texts
    return page_text(json);
  }

 private:
  static Json verdict_json(const Summary& summary) {
    const Verdict verdict = verdict_of(summary, {});
    return object(
        "facts, hints, rows, sentences, bar, next", verdict.facts, verdict.hints, verdict.rows,
        array_of(verdict.sentences, "text, alarm", &Verdict::Sentence::text,
                 &Verdict::Sentence::alarm),
        array_of(verdict.bar, "name, bytes, free", &Verdict::Part::name, &Verdict::Part::bytes,
                 &Verdict::Part::free),
        array_of(verdict.next, "command, why", &Verdict::Step::command, &Verdict::Step::why));
  }

  int64_t begin_ns(size_t bucket) const { return times_.begin_ns(bucket, profile_.log().clock()); }

  Json time_json() const {
    Json begins = Json::array();
    int64_t last = 0;
    for (size_t i = 0; i <= times_.bucket_count(); ++i) {
      begins.push_back(begin_ns(i) - last);
      last = begin_ns(i);
    }
    return begins;
  }

  Json series_json() const {
    Json all = Json::array();
    for (const Series& series : times_.series()) {
      const ScopeId* scope = profile_.replay().sites().find_scope(series.name);
      const bool shown = series.kind == Series::Kind::kGauge ||
                         (scope != nullptr && covers_scope(profile_.coverage(), series.name));
      const bool any = std::ranges::any_of(
          series.buckets, [](const SeriesBucket& bucket) { return bucket.max > 0; });
      if (!shown || !any) continue;
      all.push_back(object("name, gauge, changes", series.name, series.kind == Series::Kind::kGauge,
                           series_changes(series)));
    }
    return all;
  }

  /// Title, kind, bytes, count, module, phase, thread, api, flags, longest life; then the stack
  /// that holds most of the row, if it is known: name and place of each call, innermost first,
  /// numbered as in flame_json().
  Json row_json(const Holder& holder) {
    constexpr int kTemporary = 1;
    Json row = {strings_.id(holder.title),
                strings_.id(holder.kind),
                holder.bytes,
                holder.count,
                strings_.id(holder.module),
                holder.phase ? Json(strings_.id(*holder.phase)) : Json(nullptr),
                JsonFields::json_of(holder.thread_id),
                strings_.id(holder.api),
                holder.temporary ? kTemporary : 0,
                holder.longest_life_ns};
    if (!holder.stack.empty()) row.push_back(stack_json(holder.stack));
    return row;
  }
  Json stack_json(const std::vector<Frame>& stack) {
    Json json = Json::array();
    for (const Frame& frame : stack) {
      if (frame.module.starts_with(kOwnModule)) continue;
      json.insert(json.end(), {strings_.id(frame_title(frame)), place_id(frame)});
    }
    return json;
  }
  Json rows_json(const std::vector<Holder>& rows) {
    return array_of(rows, [&](const Holder& row) { return row_json(row); });
  }
  Json table_json(const HolderTable& table) {
    return object("rows, other_bytes, other_rows", rows_json(table.rows), table.other_bytes,
                  table.other_rows);
  }

  static bool is_main(const ScopeInfo& info) { return info.kind == 0; }
  static std::vector<ScopeId> sums(const Profile& profile) {
    std::vector<ScopeId> scopes = profile.scopes();
    std::erase_if(scopes, [&](ScopeId id) { return !is_main(profile.scope_info(id)); });
    return scopes;
  }

  Json scopes_json() {
    Json all = Json::array();
    for (const ScopeId id : profile_.scopes()) {
      const ScopeInfo& info = profile_.scope_info(id);
      const PeakFinder::Scope& sum = profile_.sum(id);
      const std::vector<Contribution> held = profile_.at_peak(id);
      Json scope = object("name, text, device", info.name, profile_.scope_text(id), info.device);
      scope["kind"] = info.kind == 0 ? "" : std::string(kind_name(info.kind));
      extend(scope, "counts, bytes, time_ns, phase", info.kind == 0 || counts_into_sum(info.kind),
             sum.peak, profile_.to_ns(sum.peak_ticks), profile_.phase_at_peak(id));
      if (sum.peak_group != kNoGroup) {
        const Contribution step{sum.peak_group, sum.peak_step_bytes, 1};
        scope["trigger"] = row_json(profile_.sites().holder(step, false));
      }
      Json tables;
      const size_t top = is_main(info) ? kMainRows : kOtherRows;
      for (Attribution& rows : attributions_) {
        const HolderTable table =
            rows.table(held, top, is_main(info) && rows.by() == GroupBy::kSite);
        if (rows.by() == GroupBy::kTag && no_tags(table)) continue;
        tables[std::string(group_by_name(rows.by()))] = table_json(table);
      }
      extend(scope, "tables, lines, flame", std::move(tables), source_.bytes_json(held),
             flame_json(held, is_main(info) ? kMainCalls : kOtherCalls));
      if (is_one_side(info)) scope["temporaries"] = temporaries_json(id);
      all.push_back(std::move(scope));
    }
    return all;
  }

  /// Whether the scope is one device, or the host.
  static bool is_one_side(const ScopeInfo& info) {
    return is_main(info) && (info.device >= 0 || info.name == "host");
  }

  /// A flame graph of who allocated blocks that were freed at once, by their number.
  Json temporaries_json(ScopeId scope) {
    const Replay& replay = profile_.replay();
    std::vector<Contribution> freed;
    for (GroupId id{0}; id < replay.sites().group_count(); ++id) {
      const uint64_t count = replay.peaks().group(id).temporary_count;
      if (count > 0 && profile_.counts_into(id, scope)) freed.push_back({id, count, count});
    }
    return freed.empty() ? Json(nullptr) : flame_json(freed, kOtherCalls);
  }

  static bool no_tags(const HolderTable& table) {
    return std::ranges::all_of(table.rows, [](const Holder& row) { return row.title == kOthers; });
  }

  /// The largest calls, nested: [name, bytes, place, calls…]. A call's own bytes are `bytes` less
  /// the bytes of its calls.
  Json flame_json(const std::vector<Contribution>& held, size_t most) {
    const CallTree tree(profile_, held, CallTree::Order::kFromOutermost);
    return call_json(tree, tree.root(), std::max<uint64_t>(tree.least_of(most), 1), true);
  }
  Json call_json(const CallTree& tree, const CallTree::Node& node, uint64_t smallest, bool root) {
    Json json = {strings_.id(root ? "" : CallTree::title(node)), node.bytes,
                 node.frame == nullptr ? strings_.id("") : place_id(*node.frame)};
    for (const uint32_t id : node.children) {
      if (tree.node(id).bytes >= smallest)
        json.push_back(call_json(tree, tree.node(id), smallest, false));
    }
    return json;
  }
  uint32_t place_id(const Frame& frame) {
    const std::optional<uint32_t> file = source_.file_of(frame);
    return file ? strings_.place_id(place(frame), *file, frame.line) : strings_.id(place(frame));
  }
  static std::string place(const Frame& frame) {
    if (frame.file.empty()) return frame.module;
    const std::string file(file_name(frame.file));
    return frame.module + (frame.module.empty() ? "" : " · ") + file +
           (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
  }

  Json phases_json() const {
    Json all = Json::array();
    for (const PhaseBand& band : phase_bands(profile_, kMaxLanes)) {
      Json instances = Json::array();  // begin and length of each instance
      for (const auto& [begin_ns, end_ns] : band.instances)
        instances.insert(instances.end(), {begin_ns, end_ns - begin_ns});
      all.push_back(object("name, label, lane, begin_ns, end_ns, instances", band.name,
                           band.label(), band.lane, band.begin_ns, band.end_ns,
                           std::move(instances)));
    }
    return all;
  }

  /// What each scope consisted of over time: the names of its parts, then for each moment [ns since
  /// the moment before, change of each part's bytes…].
  Json stacked_json() {
    Json all = Json::object();
    for (const Stacked& sum : instants_.stacked) {
      Json ways = Json::object();
      for (const Stacked::By& by : sum.ways) {
        if (by.has_names()) ways[std::string(group_by_name(by.by))] = stacked_by_json(by);
      }
      all[sum.scope] = std::move(ways);
    }
    return all;
  }
  Json stacked_by_json(const Stacked::By& by) {
    Json parts = Json::array(), moments = Json::array();
    for (const std::string& part : by.parts) parts.push_back(strings_.id(part));
    int64_t last_ns = 0;
    std::vector<uint64_t> last(by.parts.size());
    for (const Stacked::Moment& moment : by.moments) {
      moments.push_back(moment.time_ns - last_ns);
      for (size_t i = 0; i < last.size(); ++i)
        moments.push_back(static_cast<int64_t>(moment.bytes[i] - last[i]));
      last_ns = moment.time_ns;
      last = moment.bytes;
    }
    return object("parts, moments", std::move(parts), std::move(moments));
  }

  /// rows: [title, kind, module]. kinds: [device, kind, [row, bytes, count…], other bytes, other
  /// rows]. calls: caller, name and place of each. list: [ns, reason, kinds, [place, bytes…]].
  Json instants_json() {
    Json rows = Json::array();
    for (const Holder& row : instants_.rows)
      rows.push_back({strings_.id(row.title), strings_.id(row.kind), strings_.id(row.module)});
    Json list = Json::array();
    for (const Instant& instant : instants_.instants) {
      Json kinds = Json::array();
      for (const KindHolders& holders : instant.kinds) {
        Json flat = Json::array();
        for (const KindHolders::Row& row : holders.rows)
          flat.insert(flat.end(), {row.row, row.bytes, row.count});
        kinds.push_back({holders.device, std::string(kind_path(holders.kind)), std::move(flat),
                         holders.other_bytes, holders.other_rows});
      }
      Json there = Json::array();
      for (const HeldThere& held : instant.held)
        there.insert(there.end(), {held.place, held.bytes});
      list.push_back({instant.time_ns, instant.reason, std::move(kinds), std::move(there)});
    }
    Json places = Json::array();
    for (const HeldPlace& place : instants_.places)
      places.push_back({place.device, std::string(kind_path(place.kind)), place.row, place.call});
    Json calls = Json::array();
    for (const HeldCalls::Call& call : instants_.calls.calls) {
      calls.insert(calls.end(), {call.caller, strings_.id(call.title),
                                 call.frame == nullptr ? strings_.id("") : place_id(*call.frame)});
    }
    return object("rows, list, places, calls, device, host", std::move(rows), std::move(list),
                  std::move(places), std::move(calls), changes_json(instants_.device_changes),
                  changes_json(instants_.host_changes));
  }
  /// [ns since the step before, place, bytes, count…]; -1 ns: another part of the same step. null:
  /// there are too many changes.
  static Json changes_json(const std::optional<PlaceChanges>& changes) {
    if (!changes) return nullptr;
    Json flat = Json::array();
    int64_t last = 0;
    for (const PlaceChange& change : *changes) {
      // Times in a damaged log may run backwards.
      flat.insert(flat.end(),
                  {change.begins_step ? std::max<int64_t>(0, change.time_ns - last) : -1,
                   change.place, change.bytes, change.count});
      if (change.begins_step) last = std::max(last, change.time_ns);
    }
    return flat;
  }

  Json leaks_json() {
    Json all = Json::array();
    for (const ScopeId id : sides(profile_)) {
      const ScopeInfo& info = profile_.scope_info(id);
      const std::vector<Contribution> live = profile_.live(id);
      Json side = table_json(profile_.sites().table(live, kListRows, true));
      extend(side, "scope, text, bytes, count, flame", info.name, profile_.scope_text(id),
             sum_of(live, &Contribution::bytes), sum_of(live, &Contribution::count),
             live.empty() ? Json(nullptr) : flame_json(live, kOtherCalls));
      all.push_back(std::move(side));
    }
    return all;
  }

  Profile& profile_;
  const TimeSeries& times_;
  const Instants& instants_;
  const ArenaHistory& arenas_;
  const std::optional<LastUses>& uses_;
  const std::vector<Ages>& ages_;
  const std::optional<Summary>& run_;
  const Complete complete_;
  const PageSource source_;
  std::vector<Attribution> attributions_;
  Strings strings_;
};

/// JSON for the inside of a script element: no text in it can end the element or a line.
void write_inside_script(const std::string& json, std::ostream& out) {
  constexpr std::string_view kLineSeparator = "\xe2\x80\xa8", kParagraphSeparator = "\xe2\x80\xa9";
  size_t begin = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = std::string_view(json).substr(i, 3);
    const char* escape = json[i] == '<'                ? "\\u003c"
                         : rest == kLineSeparator      ? "\\u2028"
                         : rest == kParagraphSeparator ? "\\u2029"
                                                       : nullptr;
    if (escape == nullptr) continue;
    out << std::string_view(json).substr(begin, i - begin) << escape;
    if (json[i] != '<') i += 2;
    begin = i + 1;
  }
  out << std::string_view(json).substr(begin);
}

}  // namespace

PageLog read_for_page(Profile& profile, const TimeSeries& times, const Progress& progress) {
  Instants instants = live_at_instants(profile, times, kHoldersOfInstant, progress);
  ArenaHistory arenas = arena_history(profile, times, instants, progress);
  std::optional<LastUses> uses;
  if (has_uses(profile.definitions())) uses = last_uses(profile, progress);
  std::vector<Held> peaks;
  for (const ScopeId id : sides(profile)) peaks.push_back(peak_of(profile, id));
  return {std::move(instants), std::move(arenas), std::move(uses),
          ages_of(profile, peaks, progress)};
}

std::string page_data(Profile& profile, const TimeSeries& times, const PageLog& log,
                      bool with_source, Complete complete) {
  return PageData(profile, times, log, with_source, complete).make();
}

std::string page_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool has_page() {
  return !page_template().empty();
}

void require_page() {
  if (has_page()) return;
  throw std::runtime_error(
      "this gpupeak was built without the page: tools/bootstrap.sh fetches what it is made of; "
      "then configure and build again");
}

void write_page(std::string_view list, const std::vector<std::string>& items,
                const std::string& tool_version, std::ostream& out) {
  require_page();
  const std::string_view page = page_template();
  const size_t mark = page.find(kDataMark);
  if (mark == std::string_view::npos)
    throw std::logic_error("write_page: the page has no data mark");
  out << page.substr(0, mark) << "{\"schema\":\"gpupeak.page/1\",\"version\":\"" << tool_version
      << "\",\"" << list << "\":[";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out << ",\n";
    write_inside_script(items[i], out);
  }
  out << "]}" << page.substr(mark + kDataMark.size());
}

}  // namespace gpupeak::collector
