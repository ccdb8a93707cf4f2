// Writes values as JSON and reads them, by lists of fields that serve both (summary_json.h, partial
// results of `merge`). Every value that is read is checked, since anybody may have written the
// file.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "collector/summary/summary_json.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {

using Json = nlohmann::ordered_json;

/// JSON of any value: a class is an object of its fields. `Of` is the class that is derived from
/// it:
///
///   Of::json_of(value)        of a type that is written in a way of its own
///   Of::fields(of, value)     the keys of a class
///   Of::kMayLack              an optional without a value has no key; else it is null
template <class Of>
class JsonWriter {
 public:
  template <typename T>
  static Json json_of(const T& value) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      return std::string_view(value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return value;
    } else if constexpr (requires { value.has_value(); }) {
      return value ? Of::json_of(*value) : Json(nullptr);
    } else if constexpr (std::ranges::range<T>) {
      Json json = Json::array();
      for (const auto& one : value) json.push_back(Of::json_of(one));
      return json;
    } else {
      Of of;
      Of::fields(of, value);
      return of.take();
    }
  }
  template <typename T>
  static Json json_of(const std::map<std::string, T>& values) {
    JsonWriter of;
    for (const auto& [name, value] : values) of.add(name, Of::json_of(value));
    return of.take();
  }
  static Json json_of(WarningCode code) { return code_text(code); }

  void operator()(std::string_view names, const auto&... values) {
    FieldNames name(names);
    (put(name.next(), values), ...);
  }
  void put(std::string_view name, const auto& value) {
    if constexpr (Of::kMayLack && requires { value.has_value(); })
      if (!value) return;
    add(name, Of::json_of(value));
  }
  /// Keys are appended without a search for equal ones, which would take quadratic time.
  void add(std::string_view name, Json value) {
    json_.get_ref<Json::object_t&>().emplace_back(std::string(name), std::move(value));
  }
  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

/// Says which value is wrong, and how.
struct WrongField : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One value of JSON; of an object its keys are read by operator() and the functions below it,
/// which are those of summary_json.h. They throw WrongField. `Of` says what is read:
///
///   Of::fields(reader, value)   the keys of a class
///   Of::set(reader, value)      the value of a type that is written in a way of its own
///   Of::kMayLack                what is missing or null is as it is by default; else only an
///                               optional value may be missing
template <class Of>
class JsonReader {
 public:
  /// `name`: what messages call it.
  JsonReader(const Json& json, std::string name) : json_(json), name_(std::move(name)) {}

  void operator()(std::string_view names, auto&... values) const {
    FieldNames name(names);
    (read(name.next(), values), ...);
  }
  void if_any(std::string_view name, auto& value) const { read(name, value); }
  template <typename T>
  void if_any(std::string_view name, std::optional<T>& value, auto fields) const {
    if (find(name) != nullptr) in(name, [&](auto& inner) { fields(inner, value.emplace()); });
  }
  void or_null(std::string_view name, auto& value, bool = false) const { read(name, value); }
  void in(std::string_view name, auto fields) const {
    static const Json kNothing = Json::object();
    const Json* const json = find(name);
    const JsonReader inner(json != nullptr ? *json : kNothing, std::string(name));
    fields(inner);
  }
  void written(std::string_view, const auto&...) const {}
  void written_if_any(std::string_view, const auto&) const {}

  void require(bool is_right, std::string_view what) const {
    if (!is_right) throw WrongField(name_ + " " + std::string(what));
  }

  /// Sets a value to all of this one.
  template <typename T>
  void get(T& value) const {
    if constexpr (requires { Of::set(*this, value); }) {
      Of::set(*this, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      require(json_.is_boolean(), "is neither true nor false");
      value = json_.get<bool>();
    } else if constexpr (std::is_arithmetic_v<T>) {
      bool fits = json_.is_number_integer();
      if (json_.is_number_unsigned()) {
        fits = json_.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max());
      } else if (fits) {
        fits =
            std::is_signed_v<T> && json_.get<int64_t>() >= int64_t{std::numeric_limits<T>::min()};
      }
      require(fits, "is no such number");
      value = json_.get<T>();
    } else {
      Of::fields(*this, value);
    }
  }
  void get(std::string& value) const {
    require(json_.is_string(), "is no text");
    value = escape(json_.get_ref<const std::string&>());
  }
  void get(WarningCode& value) const {
    std::string text;
    get(text);
    value = parse_warning_code(text);
  }
  void get(RunEnd& value) const {
    std::string kind;
    read("kind", kind);
    const bool known = kind == "exit" || kind == "signal";
    require(known || kind == "unknown" || Of::kMayLack, "has a kind that is not known");
    if (!known) return;
    value.kind = kind == "exit" ? ExitKind::kExit : ExitKind::kSignal;
    read("code", value.code);
  }
  template <typename T>
  void get(std::optional<T>& value) const {
    if (!Of::kMayLack || !json_.is_null()) get(value.emplace(T{}));  // clang 14 wants a value
  }
  template <typename T>
  void get(std::vector<T>& values) const {
    require(json_.is_array(), "is no list");
    for (const Json& value : json_) JsonReader(value, name_).get(values.emplace_back());
  }
  template <typename T>
  void get(std::map<std::string, T>& values) const {
    require(json_.is_object(), "is no object");
    for (const auto& [name, value] : json_.items())
      JsonReader(value, name).get(values[escape(name)]);
  }

 private:
  const Json* find(std::string_view key) const {
    require(json_.is_object(), "is no object");
    const auto found = json_.find(key);
    return found == json_.end() || (Of::kMayLack && found->is_null()) ? nullptr : &*found;
  }

  template <typename T>
  void read(std::string_view key, T& value) const {
    const Json* const json = find(key);
    value = T{};
    if (json != nullptr) return JsonReader(*json, std::string(key)).get(value);
    constexpr bool is_optional = requires {
      value.has_value();
    };
    require(Of::kMayLack || is_optional, "has no " + std::string(key));
  }

  const Json& json_;
  const std::string name_;
};

}  // namespace gpupeak::collector
