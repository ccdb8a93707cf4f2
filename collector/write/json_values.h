// Parts of JSON that several writers share: the values of a Summary as docs/summary.schema.json
// describes them.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "collector/summary/summary_fields.h"

namespace gpupeak::collector {

using Json = nlohmann::ordered_json;

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
template <class T>
Json json_value(T&& value) {
  if constexpr (requires { value.has_value(); })
    return nullable(value);
  else
    return Json(std::forward<T>(value));
}
template <class Is, class T>
Json json_if(const Is& is_known, const T& value) {
  return is_known ? Json(value) : Json(nullptr);
}
/// "bytes, count": as many names as there are values, or it does not compile.
template <size_t kCount>
struct JsonNames {
  consteval JsonNames(const char* names) : text(names) {
    size_t count = 1;
    for (const char c : text) count += c == ',';
    if (count != kCount) throw "another number of names than of values";
  }
  std::string_view text;
};
/// Puts values into an object: extend(json, "bytes, phase", bytes, phase). An optional without a
/// value is null.
template <class... T>
void extend(Json& json, std::type_identity_t<JsonNames<sizeof...(T)>> names, T&&... values) {
  FieldNames name(names.text);
  ((json[std::string(name.next())] = json_value(std::forward<T>(values))), ...);
}
/// An object with these values.
template <class... T>
Json object(std::type_identity_t<JsonNames<sizeof...(T)>> names, T&&... values) {
  Json json = Json::object();
  extend(json, names, std::forward<T>(values)...);
  return json;
}
/// An array with to_json(item) of each item.
template <class Items, class ToJson>
Json array_of(const Items& items, const ToJson& to_json) {
  Json json = Json::array();
  for (const auto& item : items) json.push_back(to_json(item));
  return json;
}
/// An array of objects with these members of each item, as fields or functions of it.
template <class Items, class... Member>
Json array_of(const Items& items, std::type_identity_t<JsonNames<sizeof...(Member)>> names,
              Member... members) {
  return array_of(items,
                  [&](const auto& item) { return object(names, std::invoke(members, item)...); });
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

/// A whole output of JSON. Bytes that are not UTF-8 are replaced.
void write_line(const Json& json, std::ostream& out);

Json frame_json(const Frame& frame);
/// The parts of a site's title.
Json parts_json(const std::vector<SitePart>& parts);
Json holders_json(const std::vector<Holder>& holders);
/// How the run ended.
Json exit_json(const RunEnd& end);
Json quality_json(const Quality& quality);

}  // namespace gpupeak::collector
