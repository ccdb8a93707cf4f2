#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/summary/summary_json.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/write/json_values.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

std::string_view text_of(LogEnd end) {
  constexpr std::string_view kEnds[] = {"in_order", "killed", "running", "unknown"};
  return kEnds[static_cast<size_t>(end)];
}

/// Makes a JSON object of the fields that summary_json.h describes.
class JsonFields {
 public:
  template <typename T>
  static Json json_of(const T& value) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      return std::string_view(value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return value;
    } else {
      JsonFields fields;
      if constexpr (requires { json_fields(fields, value); })
        json_fields(fields, value);
      else
        each_field(fields, value);
      return fields.take();
    }
  }
  template <typename T>
  static Json json_of(const std::vector<T>& values) {
    Json json = Json::array();
    for (const T& value : values) json.push_back(json_of(value));
    return json;
  }

  void operator()(std::string_view names, const auto&... values) {
    FieldNames name(names);
    (add(name.next(), json_of(values)), ...);
  }
  template <typename T>
  void if_any(std::string_view name, const T& value) {
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
  void only_written(auto fields) { fields(*this); }
  Json take() { return std::move(json_); }

 private:
  static Json json_of(const Frame& frame) { return frame_json(frame); }
  static Json json_of(const std::vector<SitePart>& parts) { return parts_json(parts); }
  static Json json_of(const RunEnd& end) { return exit_json(end); }
  static Json json_of(WarningCode code) { return code_text(code); }
  static Json json_of(FailureCause cause) { return cause_name(cause); }
  static Json json_of(KernelAccess access) { return access_name(access); }
  static Json json_of(LogEnd end) { return text_of(end); }
  template <typename T>
  static Json json_of(const std::optional<T>& value) {
    return value ? json_of(*value) : Json(nullptr);
  }
  template <typename T>
  static Json json_of(const std::map<std::string, T>& values) {
    JsonFields fields;
    for (const auto& [name, value] : values) fields.add(name, json_of(value));
    return fields.take();
  }
  template <typename A, typename B>
  static Json json_of(const std::pair<A, B>& value) {
    return Json::array({json_of(value.first), json_of(value.second)});
  }

  template <typename T>
  static bool is_any(const T& value) {
    if constexpr (requires { value.empty(); })
      return !value.empty();
    else
      return static_cast<bool>(value);
  }
  /// Keys are appended without a search for equal ones, which would take quadratic time.
  void add(std::string_view name, Json value) {
    json_.get_ref<Json::object_t&>().emplace_back(std::string(name), std::move(value));
  }

  Json json_ = Json::object();
};

}  // namespace

Json holders_json(const std::vector<Holder>& holders) {
  return JsonFields::json_of(holders);
}

void write_line(const Json& json, std::ostream& out) {
  out << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json quality_json(const Quality& quality) {
  return JsonFields::json_of(quality);
}

Json summary_json(const Summary& summary) {
  JsonFields fields;
  fields("schema", "gpupeak.summary/1");
  json_fields(fields, summary);
  return fields.take();
}

void write_json(const Summary& summary, std::ostream& out) {
  write_line(summary_json(summary), out);
}

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
