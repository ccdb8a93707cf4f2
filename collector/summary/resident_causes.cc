#include "collector/summary/resident_causes.h"

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

bool is_seen_late(uint64_t looked_at_bytes, uint64_t rss_bytes) {
  constexpr uint64_t kClearly = 4 << 20;
  return rss_bytes > looked_at_bytes + looked_at_bytes / 16 + kClearly;
}

}  // namespace gpupeak::collector
