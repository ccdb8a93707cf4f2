// A row for each site with all that is known about it, for spreadsheets and data frames.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collector/export/export.h"
#include "collector/log/kinds.h"
#include "collector/summary/site_title.h"
#include "collector/text/csv_field.h"

namespace gpupeak::collector {
namespace {

struct Row {
  Holder site;
  uint64_t peak_bytes = 0, peak_count = 0;
  uint64_t leaked_bytes = 0, leaked_count = 0;
  uint64_t alloc_bytes = 0, alloc_count = 0, temporary_count = 0;
};

std::vector<Row> rows_of(Profile& profile, ScopeId scope) {
  const Replay& replay = profile.replay();
  std::map<std::string, Row> rows;
  for (GroupId id{0}; id < replay.sites().group_count(); ++id) {
    if (!profile.counts_into(id, scope)) continue;
    const PeakFinder::Group& group = replay.peaks().group(id);
    const PeakFinder::AtPeak peak = replay.peaks().at_peak(id, scope);
    Holder site = profile.sites().holder({id, 0, 0}, false);
    Row& row = rows[row_key(site)];
    row.site = std::move(site);
    row.peak_bytes += peak.bytes;
    row.peak_count += peak.count;
    row.leaked_bytes += group.live_bytes;
    row.leaked_count += group.live_count;
    row.alloc_bytes += group.alloc_bytes;
    row.alloc_count += group.alloc_count;
    row.temporary_count += group.temporary_count;
  }
  std::vector<Row> list;
  std::vector<Holder> sites;
  sites.reserve(rows.size());
  for (auto& [key, row] : rows) sites.push_back(std::move(row.site));
  tell_apart(sites);
  for (auto& [key, row] : rows) {
    row.site = std::move(sites[list.size()]);
    list.push_back(std::move(row));
  }
  return list;
}

/// The site's innermost function, and the line in it.
std::string place_fields(const Holder& site) {
  if (site.parts.empty()) return ",,";
  const Frame& frame = site.parts.front().frame;
  return fmt::format("{},{},{}", csv_field(frame.function), csv_field(frame.file),
                     frame.line > 0 ? std::to_string(frame.line) : "");
}

}  // namespace

void export_csv(Profile& profile, const ExportOptions& options, std::ostream& out) {
  std::vector<Row> rows = rows_of(profile, profile.scope(options.scope));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.peak_bytes > b.peak_bytes; });
  out << "site,kind,module,peak_bytes,peak_count,leaked_bytes,leaked_count,alloc_bytes,alloc_count,"
         "temporary_count,function,file,line\r\n";
  for (const Row& row : rows) {
    out << fmt::format("{},{},{},{},{},{},{},{},{},{},{}\r\n", csv_field(row.site.title),
                       row.site.kind, csv_field(row.site.module), row.peak_bytes, row.peak_count,
                       row.leaked_bytes, row.leaked_count, row.alloc_bytes, row.alloc_count,
                       row.temporary_count, place_fields(row.site));
  }
}

}  // namespace gpupeak::collector
