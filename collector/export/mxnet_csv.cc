// MXNet's memory profiler: "tag,MiB", one line for each tag; its scripts add these up by keywords.
// Every byte of the peak is in one tag: that of the rules, else the module's name and the kind.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "collector/export/export.h"
#include "collector/log/kinds.h"
#include "collector/text/csv_field.h"
#include "collector/text/text_format.h"
#include "collector/timeline/moment.h"

namespace gpupeak::collector {

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
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [tag, size] : rows)
    out << fmt::format("{},{}\n", csv_field(tag), exact_mib(size));
}

}  // namespace gpupeak::collector
