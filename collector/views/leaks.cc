#include <fmt/format.h>

#include "collector/analyze/summary_parts.h"
#include "collector/summary/failure_text.h"
#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

struct Leaks {
  ScopeId scope;
  uint64_t bytes = 0, count = 0;
  HolderTable table;
  std::vector<GrowthSummary> growth;  ///< at each step, of a device or of the host
};

/// Every device, managed memory (which counts into no device's sum) and the host.
bool shown_unasked(const ScopeInfo& info) {
  if (info.kind != 0) return info.name == "device/managed";
  return info.device >= 0 || info.name == "host";
}

std::vector<ScopeId> scopes_to_show(const Profile& profile, const std::string& scope) {
  if (!scope.empty()) return {profile.scope(scope)};
  std::vector<ScopeId> shown;
  for (const ScopeId id : profile.scopes()) {
    if (shown_unasked(profile.scope_info(id))) shown.push_back(id);
  }
  return shown;
}

std::vector<Leaks> find_leaks(Profile& profile, const std::string& scope, size_t top,
                              bool with_stacks) {
  const std::vector<GrowthSummary> growth =
      summarize_growth(profile.replay(), profile.sites(), profile.coverage().host());
  std::vector<Leaks> found;
  for (const ScopeId id : scopes_to_show(profile, scope)) {
    const std::vector<Contribution> live = profile.live(id);
    Leaks& leaks = found.emplace_back();
    leaks.scope = id;
    for (const Contribution& part : live) {
      leaks.bytes += part.bytes;
      leaks.count += part.count;
    }
    const ScopeInfo& info = profile.scope_info(id);
    for (const GrowthSummary& row : growth) {
      if (row.device ? row.device == info.device && info.kind == 0 : info.name == "host")
        leaks.growth.push_back(row);
    }
    leaks.table = profile.sites().table(live, top, with_stacks);
  }
  return found;
}

}  // namespace

void write_leaks(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                 const TextStyle& style) {
  const std::vector<Leaks> all = find_leaks(profile, scope, top, false);
  write_losses(profile.quality(), out, style);
  const bool ended = profile.log().counters().ended != 0;
  const char* separator = "";
  for (const Leaks& leaks : all) {
    const std::string heading = fmt::format("{}: {} in {} blocks", profile.scope_text(leaks.scope),
                                            size_text(leaks.bytes, style), grouped(leaks.count));
    const std::string_view name = ended ? "LIVE AT EXIT" : "LIVE AT THE LAST EVENT";
    const size_t used = name.size() + 2;
    const auto width = static_cast<size_t>(style.width);
    out << separator << bold(name, style) << "  "
        << cut(heading, width > used ? width - used : 0, style) << '\n';
    separator = "\n";
    // What grew may have been freed as the program ended.
    for (const GrowthSummary& growth : leaks.growth)
      out << cut("  grew " + growth_text(growth, style), width, style) << '\n';
    if (leaks.bytes == 0) continue;
    write_sites(leaks.table, leaks.bytes, out, style);
  }
  if (all.empty()) out << "nothing was allocated\n";
}

void write_leaks_json(Profile& profile, const std::string& scope, size_t top, std::ostream& out) {
  const std::vector<Leaks> all = find_leaks(profile, scope, top, true);
  Json json = view_json(profile, "gpupeak.leaks/1");
  extend(json, "at_exit, scopes", profile.log().counters().ended != 0, Json::array());
  for (const Leaks& leaks : all) {
    Json side =
        object("scope, bytes, count, growth", profile.scope_info(leaks.scope).name, leaks.bytes,
               leaks.count, array_of(leaks.growth, [&](const GrowthSummary& growth) {
                 return object("site, phase, steps, bytes_each", growth.title, growth.phase,
                               growth.steps(), growth.bytes_each());
               }));
    extend(side, "sites, other_bytes, other_sites", holders_json(leaks.table.rows),
           leaks.table.other_bytes, leaks.table.other_rows);
    json["scopes"].push_back(std::move(side));
  }
  write_line(json, out);
}

}  // namespace gpupeak::collector
