// MXNet's memory profiler: "tag,MiB", a line a tag, which its scripts add up by keywords. Every
// byte of the peak is in one tag.
#include <fmt/format.h>

#include "collector/csv_field.h"
#include "collector/export/export.h"

namespace gpupeak::collector {
namespace {

/// A byte is 2^-20 MiB: twenty digits are exact.
std::string exact_mib(uint64_t bytes) {
  std::string text = fmt::format("{:.20f}", static_cast<double>(bytes) / (1 << 20));
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text + '0' : text;
}

}  // namespace

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
