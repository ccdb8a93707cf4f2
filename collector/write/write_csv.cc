#include <fmt/format.h>

#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
void write_csv(const Summary& summary, std::ostream& out) {
  out << "scope,bytes,percent,count,kind,api,module,phase,thread,site\r\n";
  for (const Peak& peak : summary.peaks) {
    for (const Holder& holder : peak.holders) {
      out << fmt::format(
          "{},{},{},{},{},{},{},{},{},{}\r\n", peak.scope, holder.bytes,
          percent(holder.bytes, peak.bytes), holder.count, holder.kind, csv_field(holder.api),
          csv_field(holder.module), csv_field(holder.phase.value_or("")),
          holder.thread_id ? fmt::format("{}", *holder.thread_id) : "", csv_field(holder.title));
    }
    if (peak.other_bytes == 0) continue;
    out << fmt::format("{},{},{},,,,,,,({} more)\r\n", peak.scope, peak.other_bytes,
                       percent(peak.other_bytes, peak.bytes), peak.other_sites);
  }
}

}  // namespace gpupeak::collector
