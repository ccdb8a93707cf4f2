#include "collector/summary/resident_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace gpupeak::collector {

std::vector<ResidentCause> resident_causes(const Metrics& metrics) {
  constexpr std::pair<std::string_view, std::string_view> kCauses[] = {
      {"heap_bytes", "heap in use"},
      {"kept_by_malloc_bytes", "kept by malloc"},
      {"mappings_bytes", "mappings"},
      {"thread_stacks_bytes", "thread stacks"},
      {"files_bytes", "program code and files"},
      {"static_data_bytes", "static data"},
      {"written_files_bytes", "written pages of files"},
      {"shared_memory_bytes", "shared memory"},
      {"driver_bytes", "the driver's"},
      {"gpupeak_bytes", "gpupeak's own"},
      {"inherited_bytes", "its parent's, from before the fork"},
      {"unexplained_bytes", "unexplained"}};
  std::vector<ResidentCause> causes;
  for (const auto& [name, text] : kCauses) {
    const auto bytes = metric(metrics, std::string("host.resident.").append(name));
    if (bytes.value_or(0) > 0) causes.push_back({text, *bytes});
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return causes;
}

uint64_t resident_at_most(const Holder& holder, const Metrics& metrics) {
  const auto mappings = metric(metrics, "host.resident.mappings_bytes");
  return holder.kind == "host.mmap_anon" && mappings ? std::min(holder.bytes, *mappings)
                                                     : holder.bytes;
}

std::string resident_mark(const Holder& holder, const Metrics& metrics, const TextStyle& style) {
  constexpr uint64_t kShare = 20;
  const uint64_t resident = resident_at_most(holder, metrics);
  if (holder.bytes - resident < std::max<uint64_t>(holder.bytes / kShare, 1)) return "";
  return fmt::format("  (≤ {} resident)", size_text(resident, style));
}

std::vector<const Holder*> rows_by_resident(const Peak& peak, const Metrics& metrics) {
  std::vector<const Holder*> rows;
  for (const Holder& holder : peak.holders) rows.push_back(&holder);
  std::stable_sort(rows.begin(), rows.end(), [&](const Holder* a, const Holder* b) {
    return resident_at_most(*a, metrics) > resident_at_most(*b, metrics);
  });
  return rows;
}

bool is_seen_late(uint64_t looked_at_bytes, uint64_t rss_bytes) {
  constexpr uint64_t kClearly = 4 << 20;
  return rss_bytes > looked_at_bytes + looked_at_bytes / 16 + kClearly;
}

}  // namespace gpupeak::collector
