// MXNet's memory profiler: "tag,MiB", a line a tag, which its scripts add up by keywords. Every
// byte of the peak is in one tag.
#include <fmt/format.h>

#include "collector/csv_field.h"
#include "collector/export/export.h"
#include "collector/text_format.h"

namespace gpupeak::collector {
void export_mxnet_csv(Profile& profile, const ExportOptions& options, std::ostream& out) {
  const std::vector<Contribution> held = profile.at_peak(profile.scope(options.scope));
  Attribution modules(profile.replay(), profile.symbolizer(), GroupBy::kModule);
  const HolderTable table = modules.table(held, SIZE_MAX, false);
  for (const Holder& row : table.rows) {
    const std::string kind = row.kind.substr(row.kind.find('.') + 1);
    out << fmt::format("{},{}\n", csv_field(row.title + ":" + kind), exact_mib(row.bytes));
  }
}

}  // namespace gpupeak::collector
