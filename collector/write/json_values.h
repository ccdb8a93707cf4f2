// Parts of JSON that several writers share: the values of a Summary as docs/summary.schema.json
// describes them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

using Json = nlohmann::ordered_json;

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

/// A run's labels. Keys are appended without a search for equal ones, which would take quadratic
/// time.
inline Json labels_json(const std::map<std::string, std::string>& labels) {
  Json json = Json::object();
  auto& entries = json.get_ref<Json::object_t&>();
  for (const auto& [name, value] : labels) entries.emplace_back(name, value);
  return json;
}

Json frame_json(const Frame& frame);
/// The parts of a site's title.
Json parts_json(const std::vector<SitePart>& parts);
Json holders_json(const std::vector<Holder>& holders);
/// How the run ended.
Json exit_json(const RunEnd& end);
Json quality_json(const Quality& quality);

}  // namespace gpupeak::collector
