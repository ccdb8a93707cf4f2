// Parts of the page that `report --html` writes, as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/timeline/arena_history.h"
#include "collector/timeline/last_use.h"
#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

// The inside of arenas over time.

/// null without arenas. Each list is one row of numbers: the fields below, then those of the next
/// entry. Steps and times are differences from the entry before, addresses are relative to `base`.
///
///   segments   arena, address, bytes, captured, first step, steps
///   blocks     segment (-1 - arena: in none), address in it, bytes, row, first step, steps
///   uses       for each block: -1 (not known), 0 (not seen used), or 1 and four times in ns
///   several    step, arena, address, span, bytes, count
///   holes      step, arena, largest, below the largest block, below the largest refused request,
///              segments left out, their bytes
///   levels     step, arena, in use, reserved (both: difference from the level before)
///
/// `string` gives the number of a text.
Json page_arenas(const ArenaHistory& history, const TimeSeries& times,
                 const std::function<uint32_t(const std::string&)>& string);

// A sum over time.

/// The buckets that differ from the one before, each as [buckets since the last one listed, max,
/// min]; min is left out if it equals max.
Json series_changes(const Series& series);

// When the blocks that were live at each device's peak were used, and the words for
// uses at any instant.

/// `string` gives the number of a text in the page.
///
///   names    for each use [name, text at the peak, text at an instant]; other lists have its index
///   note     stands below a column of uses
///   notes    what a use is, and what is not seen
///   devices  by scope: bytes [of each use], idle_bytes; rows [use, title, kind, bytes, blocks,
///            shortest ns, longest ns …], largest first; other_bytes, other_rows
Json page_uses(Profile& profile, const LastUses& uses, size_t top,
               const std::function<uint32_t(const std::string&)>& string);

// What the memory of each device's peak was used for, by row.

/// By scope, of those whose rows say it: the rows that do, largest first. Times are in ns, null:
/// not known. `uses`: of each RoleUse the numbers of its two texts, and its count.
Json page_buffers(const std::vector<Peak>& peaks,
                  const std::function<uint32_t(const std::string&)>& string);

// The lines of source that a page shows beside its calls, with what each line held at the peaks.
// Lines are shown only if the file is as it was when the program was built (Python: when it ran).
// Of other files the page says that they have changed.
class PageSource {
 public:
  /// Reads the files whose lines held most of the `scopes`' peaks. Reads none for a confidential
  /// report, nor for a log of another machine or container without a root for its files.
  PageSource(Profile& profile, const std::vector<ScopeId>& scopes);

  /// The number of a call's file; none if its line is not shown and the file has not changed.
  std::optional<uint32_t> file_of(const Frame& frame) const;
  /// For each file [path, piece, piece…]. A piece is the number of its first line, then its lines.
  /// Paths and lines are numbers of texts. A file without pieces has changed; one with path -1 is
  /// not shown.
  Json files_json(const std::function<uint32_t(const std::string&)>& string) const;
  /// [file, line, bytes…]: what each shown line held of a sum, with all that it called.
  Json bytes_json(const std::vector<Contribution>& held) const;

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

  void add(const std::vector<Contribution>& held);
  std::vector<uint64_t> bytes_of_places(const std::vector<Contribution>& held) const;
  const Place* place_of(const Call& call) const;
  void note(const Call& call);
  std::optional<int64_t> known_until_ns(const File& file) const;
  std::optional<int64_t> written_ns(const std::string& module) const;
  void read(File& file, size_t& text_left) const;

  Profile& profile_;
  std::vector<File> files_;
  std::unordered_map<std::string, uint32_t> file_ids_;
  std::vector<Place> places_;  ///< by Call::place; line 0: not seen
};

}  // namespace gpupeak::collector
