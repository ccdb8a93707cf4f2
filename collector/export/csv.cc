// A row a site with all that is known of it, for spreadsheets and data frames.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "collector/export/export.h"
#include "collector/log/kinds.h"
#include "collector/text/csv_field.h"

namespace gpupeak::collector {
namespace {

struct Row {
  std::string module;
  uint64_t peak_bytes = 0, peak_count = 0;
  uint64_t leaked_bytes = 0, leaked_count = 0;
  uint64_t alloc_bytes = 0, alloc_count = 0, temporary_count = 0;
};
using Rows = std::map<std::pair<std::string, std::string_view>, Row>;  // site, kind

Rows rows_of(Profile& profile, ScopeId scope) {
  const Replay& replay = profile.replay();
  Rows rows;
  for (GroupId id = 0; id < replay.sites().group_count(); ++id) {
    if (!profile.counts_into(id, scope)) continue;
    const PeakFinder::Group& group = replay.peaks().group(id);
    const PeakFinder::AtPeak peak = replay.peaks().at_peak(id, scope);
    const Holder site = profile.sites().holder({id, 0, 0}, false);
    Row& row = rows[{site.title, kind_path(replay.sites().context_of(id).kind)}];
    row.module = site.module;
    row.peak_bytes += peak.bytes;
    row.peak_count += peak.count;
    row.leaked_bytes += group.live_bytes;
    row.leaked_count += group.live_count;
    row.alloc_bytes += group.alloc_bytes;
    row.alloc_count += group.alloc_count;
    row.temporary_count += group.temporary_count;
  }
  return rows;
}

}  // namespace

void export_csv(Profile& profile, const ExportOptions& options, std::ostream& out) {
  const Rows rows = rows_of(profile, profile.scope(options.scope));
  std::vector<const Rows::value_type*> order;
  order.reserve(rows.size());
  for (const auto& row : rows) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.peak_bytes > b->second.peak_bytes;
  });
  out << "site,kind,module,peak_bytes,peak_count,leaked_bytes,leaked_count,alloc_bytes,alloc_count,"
         "temporary_count\r\n";
  for (const auto* entry : order) {
    const Row& row = entry->second;
    out << fmt::format("{},{},{},{},{},{},{},{},{},{}\r\n", csv_field(entry->first.first),
                       entry->first.second, csv_field(row.module), row.peak_bytes, row.peak_count,
                       row.leaked_bytes, row.leaked_count, row.alloc_bytes, row.alloc_count,
                       row.temporary_count);
  }
}

}  // namespace gpupeak::collector
