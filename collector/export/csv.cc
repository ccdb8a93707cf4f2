// A row for each site with all that is known about it, for spreadsheets and data frames.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collector/export/export.h"
#include "collector/summary/site_title.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/timeline/moment.h"

namespace gpupeak::collector {
namespace {

struct CsvRow {
  Holder site;
  uint64_t peak_bytes = 0, peak_count = 0;
  uint64_t leaked_bytes = 0, leaked_count = 0;
  uint64_t alloc_bytes = 0, alloc_count = 0, temporary_count = 0;
};

std::vector<CsvRow> rows_of(Profile& profile, ScopeId scope) {
  const Replay& replay = profile.replay();
  std::map<std::string, CsvRow> rows;
  for (GroupId id{0}; id < replay.sites().group_count(); ++id) {
    if (!profile.counts_into(id, scope)) continue;
    const PeakFinder::Group& group = replay.peaks().group(id);
    const PeakFinder::AtPeak peak = replay.peaks().at_peak(id, scope);
    Holder site = profile.sites().holder({id, 0, 0}, false);
    CsvRow& row = rows[row_key(site)];
    row.site = std::move(site);
    row.peak_bytes += peak.bytes;
    row.peak_count += peak.count;
    row.leaked_bytes += group.live_bytes;
    row.leaked_count += group.live_count;
    row.alloc_bytes += group.alloc_bytes;
    row.alloc_count += group.alloc_count;
    row.temporary_count += group.temporary_count;
  }
  std::vector<CsvRow> list = values_of(std::move(rows));
  std::vector<Holder> sites = list_of(list, &CsvRow::site);
  tell_apart(sites);
  for (size_t i = 0; i < list.size(); ++i) list[i].site = std::move(sites[i]);
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
  std::vector<CsvRow> rows = rows_of(profile, profile.scope(options.scope));
  std::ranges::stable_sort(rows, std::greater(), &CsvRow::peak_bytes);
  out << "site,kind,module,peak_bytes,peak_count,leaked_bytes,leaked_count,alloc_bytes,alloc_count,"
         "temporary_count,function,file,line\r\n";
  for (const CsvRow& row : rows) {
    out << fmt::format("{},{},{},{},{},{},{},{},{},{},{}\r\n", csv_field(row.site.title),
                       row.site.kind, csv_field(row.site.module), row.peak_bytes, row.peak_count,
                       row.leaked_bytes, row.leaked_count, row.alloc_bytes, row.alloc_count,
                       row.temporary_count, place_fields(row.site));
  }
}

// MXNet's memory profiler: "tag,MiB", one line for each tag; its scripts add these up by keywords.
// Every byte of the peak is in one tag: that of the rules, else the module's name and the kind.

void export_mxnet_csv(Profile& profile, const ExportOptions& options, std::ostream& out) {
  Attribution modules(profile.replay(), profile.titles(), GroupBy::kModule);
  std::map<std::string, uint64_t> bytes;
  Tagger& tagger = profile.tagger();
  const PeakParts parts =
      held_at(profile, profile.scope(options.scope), options.at, options.progress).parts;
  for (const Contribution& part : parts.outside) {
    const uint32_t tag = tagger.tag(part.group);
    if (tag != 0) {
      bytes[tagger.name(tag)] += part.bytes;
      continue;
    }
    const Holder row = modules.holder(part, false);
    bytes[row.title + ":" + row.kind.substr(row.kind.find('.') + 1)] += part.bytes;
  }
  for (const ArenaPart& part : parts.in_arenas) {
    const uint32_t tag = tagger.tag(*part.holder);
    const std::string module = profile.sites().site_module(part.holder->stack);
    const std::string name = (module.empty() ? "(no module)" : module) + ":pooled";
    bytes[tag != 0 ? tagger.name(tag) : name] += part.bytes;
  }
  std::vector<std::pair<std::string, uint64_t>> rows(bytes.begin(), bytes.end());
  std::ranges::stable_sort(rows, [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [tag, size] : rows)
    out << fmt::format("{},{}\n", csv_field(tag), exact_mib(size));
}

}  // namespace gpupeak::collector
