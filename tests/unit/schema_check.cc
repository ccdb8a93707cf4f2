#include "schema_check.h"

#include <regex>

namespace gpupeak::testing {
namespace {

using nlohmann::json;

class Validator {
 public:
  explicit Validator(const json& root) : root_(root) {}

  void check(const json& schema, const json& value, const std::string& at) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) fail(at, "is not allowed");
      return;
    }
    for (const auto& [keyword, rule] : schema.items())
      check_keyword(keyword, rule, schema, value, at);
  }

  std::vector<std::string> messages;

 private:
  void fail(const std::string& at, const std::string& what) { messages.push_back(at + " " + what); }

  static bool has_type(const json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "integer") return value.is_number_integer();
    if (type == "boolean") return value.is_boolean();
    return type == "null" && value.is_null();
  }

  void check_keyword(const std::string& keyword, const json& rule, const json& schema,
                     const json& value, const std::string& at) {
    if (keyword == "type") {
      bool fits = false;
      const json types = rule.is_array() ? rule : json::array({rule});
      for (const json& type : types) fits |= has_type(value, type.get<std::string>());
      if (!fits) fail(at, "has the wrong type: " + value.dump());
    } else if (keyword == "required") {
      for (const json& name : rule) {
        if (value.is_object() && !value.contains(name.get<std::string>())) {
          fail(at, "lacks " + name.dump());
        }
      }
    } else if (keyword == "properties") {
      for (const auto& [name, inner] : rule.items()) {
        if (value.is_object() && value.contains(name)) check(inner, value[name], at + "/" + name);
      }
    } else if (keyword == "additionalProperties") {
      if (!value.is_object()) return;
      for (const auto& [name, inner] : value.items()) {
        const bool named = schema.contains("properties") && schema["properties"].contains(name);
        if (!named) check(rule, inner, at + "/" + name);
      }
    } else if (keyword == "propertyNames") {
      if (!value.is_object()) return;
      for (const auto& [name, inner] : value.items()) check(rule, name, at + "/" + name);
    } else if (keyword == "items") {
      for (size_t i = 0; i < value.size(); ++i) check(rule, value[i], at + "/" + std::to_string(i));
    } else if (keyword == "pattern") {
      const bool fits =
          !value.is_string() ||
          std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()));
      if (!fits) fail(at, "does not match " + rule.dump() + ": " + value.dump());
    } else if (keyword == "enum") {
      if (std::find(rule.begin(), rule.end(), value) == rule.end()) fail(at, "is " + value.dump());
    } else if (keyword == "const") {
      if (value != rule) fail(at, "is " + value.dump());
    } else if (keyword == "minimum") {
      if (value.is_number() && value < rule) fail(at, "is too small: " + value.dump());
    } else if (keyword == "$ref") {
      check(root_.at(json::json_pointer(rule.get<std::string>().substr(1))), value, at);
    } else if (keyword != "$schema" && keyword != "$id" && keyword != "$defs") {
      fail(at, "schema keyword not understood: " + keyword);
    }
  }

  const json& root_;
};

}  // namespace

std::vector<std::string> violations(const nlohmann::json& schema, const nlohmann::json& value) {
  Validator validator(schema);
  validator.check(schema, value, "");
  return validator.messages;
}

}  // namespace gpupeak::testing
