#include "collector/views/temporary.h"

#include <fmt/format.h>

#include "collector/log/kinds.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

/// Temporary blocks and all blocks of a table's rows. Holder::bytes has the number of temporary
/// blocks, so that the table puts the rows with most first.
struct Temporaries {
  HolderTable table;
  uint64_t temporary = 0, allocations = 0;
};

Temporaries find_temporaries(Profile& profile, const std::string& scope, size_t top) {
  const ScopeId wanted = scope.empty() ? ScopeId{} : profile.scope(scope);
  const SiteTable& sites = profile.replay().sites();
  Temporaries found;
  std::vector<Contribution> parts;
  for (GroupId id{0}; id < sites.group_count(); ++id) {
    const PeakFinder::Group& group = profile.replay().peaks().group(id);
    const bool measured = is_device_kind(sites.context_of(id).kind) || profile.coverage().host();
    if (scope.empty() ? !measured : !profile.counts_into(id, wanted)) continue;
    found.allocations += group.alloc_count;
    found.temporary += group.temporary_count;
    parts.push_back({id, group.temporary_count, group.alloc_count});
  }
  // All rows are made first, since those without a temporary block, which come last, must not count
  // as "others".
  std::vector<Holder> rows = profile.sites().table(parts, SIZE_MAX, false).rows;
  for (Holder& row : rows) {
    if (row.bytes == 0) break;
    if (found.table.rows.size() < top) {
      found.table.rows.push_back(std::move(row));
    } else {
      found.table.other_bytes += row.bytes;
      ++found.table.other_rows;
    }
  }
  return found;
}

}  // namespace

void write_temporary(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                     const TextStyle& style) {
  const Temporaries found = find_temporaries(profile, scope, top);
  const auto width = static_cast<size_t>(style.width);
  write_losses(profile.quality(), out, style);
  constexpr std::string_view kName = "TEMPORARY";
  const std::string heading =
      fmt::format("{} of {} allocations ({} %) were freed at once", grouped(found.temporary),
                  grouped(found.allocations), percent(found.temporary, found.allocations));
  out << bold(kName, style) << "  " << cut(heading, width - kName.size() - 2, style) << '\n';
  if (found.temporary == 0) return;
  constexpr size_t kColumns = 12;
  out << fmt::format("{} {} {}  site\n", right("temporary", kColumns), right("of", kColumns),
                     right("%", 5));
  for (const Holder& row : found.table.rows) {
    const std::string figures =
        fmt::format("{} {} {}  ", right(grouped(row.bytes), kColumns),
                    right(grouped(row.count), kColumns), right(percent(row.bytes, row.count), 5));
    const std::string mark = fmt::format("  [{}]", row.kind);
    const size_t used = display_width(figures) + display_width(mark);
    out << figures << cut_title(row.title, width > used ? width - used : 0, style, row.telling_part)
        << mark << '\n';
  }
  if (found.table.other_rows > 0) {
    out << fmt::format("{}  {} more\n", right(grouped(found.table.other_bytes), kColumns),
                       grouped(found.table.other_rows));
  }
}

void write_temporary_json(Profile& profile, const std::string& scope, size_t top,
                          std::ostream& out) {
  const Temporaries found = find_temporaries(profile, scope, top);
  Json json = view_json(profile, "gpupeak.temporary/1");
  json["scope"] = text_or_null(scope);
  json["temporary_count"] = found.temporary;
  json["alloc_count"] = found.allocations;
  json["sites"] = Json::array();
  for (const Holder& row : found.table.rows) {
    Json site;
    site["kind"] = row.kind;
    site["site"] = row.title;
    site["temporary_count"] = row.bytes;
    site["alloc_count"] = row.count;
    json["sites"].push_back(std::move(site));
  }
  json["other_temporary_count"] = found.table.other_bytes;
  json["other_sites"] = found.table.other_rows;
  write_line(json, out);
}

}  // namespace gpupeak::collector
