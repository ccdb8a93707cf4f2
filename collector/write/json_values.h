// Parts of JSON that several writers share: the values of a Summary as docs/summary.schema.json
// describes them.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "collector/analyze/json_io.h"

namespace gpupeak::collector {

struct Ages;

/// Makes a JSON object of fields that summary_json.h describes, and JSON of any value.
class JsonFields : public JsonWriter<JsonFields> {
 public:
  static constexpr bool kMayLack = false;

  static void fields(JsonFields& of, const auto& value) {
    if constexpr (requires { json_fields(of, value); })
      json_fields(of, value);
    else
      each_field(of, value);
  }
  using JsonWriter::json_of;
  template <typename A, typename B>
  static Json json_of(const std::pair<A, B>& value) {
    return Json::array({json_of(value.first), json_of(value.second)});
  }
  static Json json_of(Json json) { return json; }
  static Json json_of(std::nullptr_t) { return nullptr; }
  static Json json_of(const Frame& frame);
  /// The parts of a site's title.
  static Json json_of(const std::vector<SitePart>& parts);
  static Json json_of(const RunEnd& end);
  static Json json_of(FailureCause cause) { return cause_name(cause); }
  static Json json_of(KernelAccess access) { return access_name(access); }
  static Json json_of(LogEnd end);

  void if_any(std::string_view name, const auto& value) {
    if (is_any(value)) add(name, json_of(value));
  }
  template <typename T>
  void if_any(std::string_view name, const std::optional<T>& value, auto fields) {
    if (value) in(name, [&](JsonFields& inner) { fields(inner, *value); });
  }
  void or_null(std::string_view name, const auto& value, bool is_null) {
    add(name, is_null ? Json(nullptr) : json_of(value));
  }
  void or_null(std::string_view name, const std::string& text) {
    or_null(name, text, text.empty());
  }
  void in(std::string_view name, auto fields) {
    JsonFields inner;
    fields(inner);
    add(name, inner.take());
  }
  void written(std::string_view names, const auto&... values) { (*this)(names, values...); }
  void written_if_any(std::string_view name, const auto& value) { if_any(name, value); }

 private:
  static bool is_any(const auto& value) {
    if constexpr (requires { value.empty(); })
      return !value.empty();
    else
      return static_cast<bool>(value);
  }
};

template <class Is, class T>
Json json_if(const Is& is_known, const T& value) {
  return is_known ? JsonFields::json_of(value) : Json(nullptr);
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
/// Puts values into an object: extend(json, "bytes, phase", bytes, phase).
template <class... T>
void extend(Json& json, std::type_identity_t<JsonNames<sizeof...(T)>> names, T&&... values) {
  FieldNames name(names.text);
  ((json[std::string(name.next())] = JsonFields::json_of(std::forward<T>(values))), ...);
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

Json ages_json(const Ages& ages);

/// A whole output of JSON. Bytes that are not UTF-8 are replaced.
void write_line(const Json& json, std::ostream& out);

}  // namespace gpupeak::collector
