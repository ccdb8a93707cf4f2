#include <fmt/format.h>

#include "collector/analyze/summary_parts.h"
#include "collector/summary/run_text.h"
#include "collector/text/sanitize.h"
#include "collector/text/title_text.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

std::string moment_text(const Moment& moment) {
  if (!moment.phase.empty()) return "the highest within " + escape(moment.phase);
  if (moment.time_ns) return "what was live at " + instant(*moment.time_ns);
  return moment.event ? "what was live then" : "the peak";
}

Json held_json(const Profile& profile, ScopeId scope, const std::vector<Moment>& moments,
               const std::vector<std::optional<Held>>& found,
               const std::vector<HolderTable>& tables) {
  Json list = Json::array();
  for (size_t i = 0; i < found.size(); ++i) {
    const std::optional<Held>& held = found[i];
    Json json = object("phase, bytes, time_ns, holders, other_sites, other_bytes",
                       text_or_null(moments[i].phase), held ? Json(held->bytes) : Json(),
                       held ? Json(held->time_ns) : Json(), tables[i].rows, tables[i].other_rows,
                       tables[i].other_bytes);
    if (held)
      json["curve"] = array_of(held->curve, [](const Held::Point& point) {
        return Json::array({point.time_ns, point.bytes});
      });
    list.push_back(std::move(json));
  }
  return with(view_json(profile, "gpupeak.held/1"), "scope, moments",
              profile.scope_info(scope).name, std::move(list));
}

Json last_use_json(Profile& profile, const LastUses& uses, size_t top) {
  Json json = view_json(profile, "gpupeak.last_use/1");
  extend(json, "complete, blocks_left_out, launches_unread, devices", uses.end.has_value(),
         uses.end ? Json(uses.end->left_out) : Json(), uses.end ? Json(uses.end->unread) : Json(),
         Json::array());
  for (const LastUse& of : uses.devices) {
    Json device = object("scope, peak_bytes, time_ns", profile.scope_info(of.scope).name, of.bytes,
                         of.time_ns);
    for (const UseName& use : kUses) device["bytes"][std::string(use.name)] = bytes_of(of, use.use);
    device["bytes"]["idle_in_pools"] = of.idle_bytes;
    const std::vector<UseRow> all = use_rows(profile, of);
    const TopRows rows(all, top);
    extend(device, "rows, other_bytes, other_rows",
           array_of(rows.shown,
                    [](const UseRow& row) {
                      const bool is_timed = has_time(row.use);
                      return object("use, title, kind, bytes, blocks, shortest_ns, longest_ns",
                                    use_name(row.use).name, row.title, row.kind, row.bytes,
                                    row.blocks, json_if(is_timed, row.shortest_ns),
                                    json_if(is_timed, row.longest_ns));
                    }),
           rows.other_bytes, rows.others);
    json["devices"].push_back(std::move(device));
  }
  return json;
}

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

Json temporary_json(const Profile& profile, const std::string& scope, const Temporaries& found) {
  return with(view_json(profile, "gpupeak.temporary/1"),
              "scope, temporary_count, alloc_count, sites, other_temporary_count, other_sites",
              text_or_null(scope), found.temporary, found.allocations,
              array_of(found.table.rows, "kind, site, temporary_count, alloc_count", &Holder::kind,
                       &Holder::title, &Holder::bytes, &Holder::count),
              found.table.other_bytes, found.table.other_rows);
}

}  // namespace

void write_held(Profile& profile, ScopeId scope, const std::vector<Moment>& moments, size_t top,
                std::ostream& out, const ViewStyle& style) {
  const std::vector<std::optional<Held>> found = held_then(profile, scope, moments);
  std::vector<HolderTable> tables(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) tables[i] = profile.sites().table(found[i]->takers, top, style.is_json());
  }
  if (style.is_json()) return write_line(held_json(profile, scope, moments, found, tables), out);
  TextLines text = view_text(profile, style);
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0) text.add("");
    const std::optional<Held>& held = found[i];
    const std::string moment = moment_text(moments[i]);
    if (held)
      text.heading("HELD", "{}: {} at {}, {}", profile.scope_text(scope), text.size(held->bytes),
                   instant(held->time_ns), moment);
    else
      text.heading("HELD", "{}: the log has no such moment", moment);
    if (held && held->bytes > 0) add_sites(tables[i], held->bytes, text);
  }
  text.write(out);
}

void write_last_use(Profile& profile, const LastUses& uses, size_t top, std::ostream& out,
                    const ViewStyle& style) {
  constexpr size_t kWhenColumns = 31;
  if (style.is_json()) return write_line(last_use_json(profile, uses, top), out);
  TextLines text = view_text(profile, style);
  for (const LastUse& of : uses.devices) {
    std::vector<UseRow> moved = use_rows(profile, of);
    std::erase_if(moved, [](const UseRow& row) { return !may_be_moved(row.use); });
    const TopRows rows(moved, top);
    text.wrap_behind("LAST USE", "{}: {} at {}", profile.scope_text(of.scope), text.size(of.bytes),
                     instant(of.time_ns));
    const auto bytes_by = [&](uint64_t bytes, std::string_view use) {
      if (bytes > 0) text.parts().line(text.of_whole(bytes, of.bytes), use);
    };
    for (const UseName& use : kUses) bytes_by(bytes_of(of, use.use), use.text);
    bytes_by(of.idle_bytes, "idle in pools");
    const TextTable table = text.parts("blocks", {{"used", kWhenColumns, true}});
    if (!rows.shown.empty()) text.add("\n{}site", table.figures({"size", "%", "blocks", "used"}));
    for (const UseRow& row : rows.shown)
      table.row(text.of_whole(row.bytes, of.bytes, grouped(row.blocks),
                              when_used(row.use, row.shortest_ns, row.longest_ns)),
                row.title);
    table.more(rows.others, text.of_whole(rows.other_bytes, of.bytes, ""));
    text.add("");
  }
  for (const std::string& note : use_notes(uses)) text.wrap(note);
  text.write(out);
}

void write_temporary(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                     const ViewStyle& style) {
  const Temporaries found = find_temporaries(profile, scope, top);
  if (style.is_json()) return write_line(temporary_json(profile, scope, found), out);
  TextLines text = view_text(profile, style);
  text.heading("TEMPORARY", "{} of {} allocations ({} %) were freed at once",
               grouped(found.temporary), grouped(found.allocations),
               percent(found.temporary, found.allocations));
  const TextTable table(text, {{"temporary", 12}, {"of", 12}, {"%", 5}});
  if (found.temporary > 0) table.head("site");
  for (const Holder& row : found.table.rows)
    table.row({grouped(row.bytes), grouped(row.count), percent(row.bytes, row.count)}, row.title,
              fmt::format("  [{}]", row.kind), row.telling_part);
  table.more(found.table.other_rows, {grouped(found.table.other_bytes)});
  text.write(out);
}

namespace {

struct Leaks {
  ScopeId scope;
  uint64_t bytes = 0, count = 0;
  HolderTable table;
  std::vector<GrowthSummary> growth;  ///< at each step, of a device or of the host
  /// Who held the peak, where a program in Python has freed most of it: its end frees what it kept.
  std::optional<HolderTable> at_peak;
};

/// Every device, managed memory (which counts into no device's sum) and the host.
bool shown_unasked(const ScopeInfo& info) {
  if (info.kind != 0) return info.name == "device/managed";
  return info.device >= 0 || info.name == "host";
}

std::vector<ScopeId> scopes_to_show(const Profile& profile, const std::string& scope) {
  if (!scope.empty()) return {profile.scope(scope)};
  std::vector<ScopeId> shown = profile.scopes();
  std::erase_if(shown, [&](ScopeId id) { return !shown_unasked(profile.scope_info(id)); });
  return shown;
}

std::vector<Leaks> find_leaks(Profile& profile, const std::string& scope, size_t top,
                              bool with_stacks) {
  const std::vector<GrowthSummary> growth = summarize_growth(
      profile.replay(), profile.sites(), knows_host_growth(profile.replay(), profile.coverage()));
  std::vector<Leaks> found;
  for (const ScopeId id : scopes_to_show(profile, scope)) {
    const std::vector<Contribution> live = profile.live(id);
    Leaks& leaks = found.emplace_back();
    leaks.scope = id;
    for (const Contribution& part : live) add_part(leaks, part);
    const ScopeInfo& info = profile.scope_info(id);
    for (const GrowthSummary& row : growth) {
      if (row.device ? row.device == info.device && info.kind == 0 : info.name == "host")
        leaks.growth.push_back(row);
    }
    leaks.table = profile.sites().table(live, top, with_stacks);
    if (leaks.bytes < profile.sum(id).peak / 2 && profile.definitions().python_frames().size() > 1)
      leaks.at_peak = profile.sites().table(profile.at_peak(id), top, with_stacks);
  }
  return found;
}

Json leaks_json(const Profile& profile, const std::vector<Leaks>& all) {
  Json json = view_json(profile, "gpupeak.leaks/1");
  extend(json, "at_exit, scopes", profile.log().counters().ended != 0, Json::array());
  for (const Leaks& leaks : all) {
    Json side =
        object("scope, bytes, count, growth", profile.scope_info(leaks.scope).name, leaks.bytes,
               leaks.count,
               array_of(leaks.growth, "site, phase, steps, bytes_each", &GrowthSummary::title,
                        &GrowthSummary::phase, &GrowthSummary::steps, &GrowthSummary::bytes_each));
    extend(side, "sites, other_bytes, other_sites", leaks.table.rows, leaks.table.other_bytes,
           leaks.table.other_rows);
    if (leaks.at_peak)
      side["at_peak"] =
          object("time_ns, bytes, sites, other_bytes, other_sites",
                 profile.to_ns(profile.sum(leaks.scope).peak_ticks), profile.sum(leaks.scope).peak,
                 leaks.at_peak->rows, leaks.at_peak->other_bytes, leaks.at_peak->other_rows);
    json["scopes"].push_back(std::move(side));
  }
  return json;
}

}  // namespace

void write_leaks(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                 const ViewStyle& style) {
  const std::vector<Leaks> all = find_leaks(profile, scope, top, style.is_json());
  if (style.is_json()) return write_line(leaks_json(profile, all), out);
  TextLines text = view_text(profile, style);
  const bool ended = profile.log().counters().ended != 0;
  for (const Leaks& leaks : all) {
    if (&leaks != all.data()) text.add("");
    text.heading(ended ? "LIVE AT EXIT" : "LIVE AT THE LAST EVENT", "{}: {} in {} blocks",
                 profile.scope_text(leaks.scope), text.size(leaks.bytes), grouped(leaks.count));
    // What grew may have been freed as the program ended.
    for (const GrowthSummary& growth : leaks.growth)
      text.line("  grew {}", growth_text(growth, style));
    if (leaks.bytes > 0) add_sites(leaks.table, leaks.bytes, text);
    if (!leaks.at_peak) continue;
    const PeakFinder::Scope& sum = profile.sum(leaks.scope);
    text.add("");
    text.heading("LIVE AT THE PEAK",
                 "{}: {} at {}. Most of it is freed since, by Python's end or before",
                 profile.scope_text(leaks.scope), text.size(sum.peak),
                 instant(profile.to_ns(sum.peak_ticks)));
    add_sites(*leaks.at_peak, sum.peak, text);
  }
  if (all.empty()) text.add("nothing was allocated");
  text.write(out);
}

}  // namespace gpupeak::collector
