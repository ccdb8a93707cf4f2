#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/files/regular_file.h"
#include "collector/summary/summary_json.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSchemaPrefix = "gpupeak.summary/";
constexpr std::string_view kSchema = "gpupeak.summary/1";

[[noreturn]] void refuse(const char* what) {
  throw std::invalid_argument(what);
}

/// A field of an object. A file edited by hand may have anything. Null stands for what is missing,
/// and is an empty object and an empty list.
const Json& field(const Json& json, std::string_view name) {
  static const Json none;
  if (json.is_null()) return none;
  if (!json.is_object()) refuse("what should have fields has none");
  const auto found = json.find(name);
  return found == json.end() ? none : *found;
}

/// Sets fields to the values of an object's keys, as summary_json.h describes them.
class JsonReader {
 public:
  explicit JsonReader(const Json& json) : json_(json) {}

  void operator()(std::string_view names, auto&... values) {
    FieldNames name(names);
    (read(name.next(), values), ...);
  }
  void if_any(std::string_view name, auto& value) { read(name, value); }
  template <typename T>
  void if_any(std::string_view name, std::optional<T>& value, auto fields) {
    const Json& json = field(json_, name);
    if (json.is_null()) return;
    JsonReader inner(json);
    fields(inner, value.emplace(T{}));
  }
  void or_null(std::string_view name, auto& value, bool = false) { read(name, value); }
  void in(std::string_view name, auto fields) {
    JsonReader inner(field(json_, name));
    fields(inner);
  }
  void written(std::string_view, const auto&...) {}
  void written_if_any(std::string_view, const auto&) {}

 private:
  template <typename T>
  void read(std::string_view name, T& value) {
    const Json& json = field(json_, name);
    value = T{};
    if (!json.is_null()) get(json, value);
  }

  static void get(const Json& json, std::string& value) {
    value = escape(json.get_ref<const std::string&>());
  }
  /// Reads bytes and counts. They cannot be negative or fractions.
  static void get(const Json& json, uint64_t& value) {
    if (!json.is_number_unsigned()) refuse("a figure is no whole number");
    value = json.get<uint64_t>();
  }
  static void get(const Json& json, WarningCode& value) {
    value = parse_warning_code(json.get_ref<const std::string&>());
  }
  static void get(const Json& json, KernelAccess& value) {
    const std::string& name = json.get_ref<const std::string&>();
    value = KernelAccess::kGiven;
    for (const KernelAccess access :
         {KernelAccess::kRead, KernelAccess::kWritten, KernelAccess::kGiven})
      if (name == access_name(access)) value = access;
  }
  static void get(const Json& json, RunEnd& value) {
    std::string kind;
    JsonReader end(json);
    end("kind, code", kind, value.code);
    if (kind == "exit") value.kind = ExitKind::kExit;
    if (kind == "signal") value.kind = ExitKind::kSignal;
  }
  static void get(const Json& json, SitePart& value) {
    std::string language, source, offset;
    uint32_t buffer = 0;
    JsonReader part(json);
    Frame& frame = value.frame;
    part("function, module, file, line, frames, language, name_source, offset, call, buffer",
         frame.function, frame.module, frame.file, frame.line, value.run, language, source, offset,
         frame.call, buffer);
    frame.one_block = buffer > 0;
    if (frame.one_block) frame.call = buffer;
    frame.is_python = language == "python";
    frame.name_source = parse_name_source(source);
    value.of_library = value.run > 0 && offset.empty();
    if (!offset.empty()) frame.offset = strtoull(offset.c_str(), nullptr, 16);
  }
  template <typename T>
  static void get(const Json& json, std::optional<T>& value) {
    if (!json.is_null()) get(json, value.emplace(T{}));
  }
  template <typename T>
  static void get(const Json& json, std::vector<T>& values) {
    if (!json.is_array()) refuse("a list is none");
    for (const Json& value : json) get(value, values.emplace_back());
  }
  template <typename T>
  static void get(const Json& json, std::map<std::string, T>& values) {
    if (!json.is_object()) refuse("a field has another type");
    for (const auto& [name, value] : json.items()) get(value, values[escape(name)]);
  }
  template <typename T>
  static void get(const Json& json, T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      value = json.get<T>();
    } else {
      JsonReader fields(json);
      if constexpr (requires { json_fields(fields, value); })
        json_fields(fields, value);
      else
        each_field(fields, value);
    }
  }

  const Json& json_;
};

/// Refuses indexes of something that is not there, which a file edited by hand may have.
void check_whole_run(const WholeRun& run) {
  if (run.lead >= run.processes.size()) refuse("the lead is no process");
  for (const WholeRun::Process& process : run.processes) {
    for (const WholeRun::OfDevice& held : process.devices)
      if (held.device >= run.devices.size()) refuse("a process's GPU is none of the run's");
  }
}

Summary summary_of(const Json& json, const std::string& name, const Sanitizer& sanitizer) {
  JsonReader fields(json);
  std::string schema;
  Summary summary;
  fields("schema, confidential", schema, summary.confidential);
  if (schema != kSchema) {
    throw LogError(
        schema.starts_with(kSchemaPrefix)
            ? fmt::format("{} is a newer summary: {}; this gpupeak reads {}", name, schema, kSchema)
            : fmt::format("{} is no summary: make one with gpupeak report --json", name),
        0);
  }
  if (sanitizer.is_confidential() && !summary.confidential) {
    throw UsageError(fmt::format(
        "{} names names: make it anew with gpupeak report --json --confidential", name));
  }
  json_fields(fields, summary);
  summary.log_path = name;
  if (summary.grouped_by.empty()) summary.grouped_by = group_by_name(GroupBy::kSite);
  if (summary.whole_run) check_whole_run(*summary.whole_run);
  return summary;
}

}  // namespace

bool begins_like_json(const std::string& path) {
  const Descriptor file = open_regular(path);
  char front[256];
  const ssize_t got = file ? pread(file.get(), front, sizeof front, 0) : 0;
  const std::string_view text(front, got > 0 ? static_cast<size_t>(got) : 0);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

Summary summary_from_json(std::string_view content, const std::string& name,
                          const Sanitizer& sanitizer) {
  try {
    return summary_of(Json::parse(content), sanitizer.text(name), sanitizer);
  } catch (const Json::parse_error& error) {
    throw LogError(fmt::format("{} is damaged JSON, at byte {}", name, error.byte), error.byte);
  } catch (const Json::exception&) {
    throw LogError(name + " is JSON, but no summary: a field has another type", 0);
  } catch (const std::invalid_argument& error) {
    throw LogError(fmt::format("{} is JSON, but no summary: {}", name, error.what()), 0);
  }
}

Summary load_summary(const std::string& path, const Options& options, const Progress& progress) {
  if (!begins_like_json(path)) return analyze(path, options, progress);
  constexpr uint64_t kMostJsonBytes = 256 << 20;
  const std::optional<std::string> content = read_regular(path, kMostJsonBytes);
  if (!content) throw LogError(escape(path) + " cannot be read: " + strerror(errno), 0);
  Summary summary = summary_from_json(*content, path, options.reading.sanitizer);
  if (options.top > 0 && summary.grouped_by != group_by_name(options.by)) {
    throw UsageError(fmt::format(
        "the rows of {} are by {}, not by {}: make it anew with gpupeak "
        "report --json --by {}",
        escape(path), summary.grouped_by, group_by_name(options.by), group_by_name(options.by)));
  }
  return summary;
}

}  // namespace gpupeak::collector
