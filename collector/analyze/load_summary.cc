#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "collector/analyze/analyze.h"
#include "collector/analyze/json_io.h"
#include "collector/files/regular_file.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kSchemaPrefix = "gpupeak.summary/";
constexpr std::string_view kSchema = "gpupeak.summary/1";

/// Each key of a summary may be missing, as in those of earlier releases.
struct SummaryFields {
  static constexpr bool kMayLack = true;

  static void fields(auto& io, auto& value) {
    if constexpr (requires { json_fields(io, value); })
      json_fields(io, value);
    else
      each_field(io, value);
  }
  static void set(const auto& from, KernelAccess& value) {
    std::string name;
    from.get(name);
    value = KernelAccess::kGiven;
    for (const KernelAccess access : {KernelAccess::kRead, KernelAccess::kWritten})
      if (name == access_name(access)) value = access;
  }
  static void set(const auto& part, SitePart& value) {
    std::string language, source, offset;
    uint32_t buffer = 0;
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
};
using SummaryReader = JsonReader<SummaryFields>;

/// Refuses indexes of something that is not there, which a file edited by hand may have.
void check_whole_run(const WholeRun& run) {
  if (run.lead >= run.processes.size()) throw WrongField("the lead is no process");
  for (const WholeRun::Process& process : run.processes) {
    for (const WholeRun::OfDevice& held : process.devices)
      if (held.device >= run.devices.size())
        throw WrongField("a process's GPU is none of the run's");
  }
}

Summary summary_of(const Json& json, const std::string& name, const Sanitizer& sanitizer) {
  const SummaryReader fields(json, "the summary");
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
    throw UsageError("{} names names: make it anew with gpupeak report --json --confidential",
                     name);
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
  } catch (const WrongField& error) {
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
    throw UsageError(
        "the rows of {} are by {}, not by {}: make it anew with gpupeak report --json --by {}",
        escape(path), summary.grouped_by, group_by_name(options.by), group_by_name(options.by));
  }
  return summary;
}

}  // namespace gpupeak::collector
