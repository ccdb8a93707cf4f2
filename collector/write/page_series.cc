#include "collector/write/page_series.h"

namespace gpupeak::collector {

Json series_changes(const Series& series) {
  Json changes = Json::array();
  size_t last = 0;
  const SeriesBucket* before = nullptr;
  for (size_t i = 0; i < series.buckets.size(); ++i) {
    const SeriesBucket& bucket = series.buckets[i];
    if (before != nullptr && before->max == bucket.max && before->min == bucket.min) continue;
    before = &bucket;
    const size_t at = series.first_bucket + i;
    Json change = {at - last, bucket.max};
    if (bucket.min != bucket.max) change.push_back(bucket.min);
    changes.push_back(std::move(change));
    last = at;
  }
  return changes;
}

}  // namespace gpupeak::collector
