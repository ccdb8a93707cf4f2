#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "collector/export/export.h"
#include "collector/text/error.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {
namespace {

struct ExportOptions : OutputOptions {
  std::string format;  ///< as collector::export_formats() names it
  std::string log;
  std::string process;  ///< of a run; empty: the one that held the most
  std::string scope;    ///< as collector::Profile::scope() takes it
  std::string at;       ///< as collector::held_at() takes it; empty: the peak
};

const collector::ExportFormat& format_of(const std::string& name) {
  const auto formats = collector::export_formats();
  return *std::ranges::find_if(
      formats, [&](const auto& format) { return format.name == name || format.alias == name; });
}

void check_moment(const collector::ExportFormat& format, const std::string& at) {
  if (at.empty() || format.has_moment) return;
  std::string names;
  for (const collector::ExportFormat& other : collector::export_formats()) {
    if (other.has_moment) names += (names.empty() ? "" : ", ") + std::string(other.name);
  }
  throw collector::UsageError("{} has the whole run: --at is for {}", format.name, names);
}

void check_output(const collector::ExportFormat& format, const std::string& out) {
  if (!is_standard_output(out)) return;
  if (format.write_file != nullptr)
    throw collector::UsageError("{} is a file: name it with -o FILE", format.name);
  if (format.binary && isatty(STDOUT_FILENO) != 0) {
    throw collector::UsageError("{} is nothing for a terminal: name a file with -o FILE",
                                format.name);
  }
}

/// Of one log, damaged or not.
int export_events(const collector::ExportFormat& format, const ExportOptions& options) {
  if (!options.scope.empty() || options.strict)
    throw collector::UsageError(
        "{} has all that is in the log: --scope and --strict are not for it", format.name);
  // If the events go to the terminal there is no progress bar: it would appear among them.
  ProgressBar bar;
  const collector::Progress progress =
      isatty(output_descriptor(options.out)) != 0 ? collector::Progress{} : bar.callback();
  const collector::LogReader log(
      options.process.empty() ? options.log : process_log(options.log, options.process),
      options.reading.sanitizer);
  write_output(options.out, [&](std::ostream& out) { format.write_events(log, out, progress); });
  return kOk;
}

int export_log(const ExportOptions& options) {
  const collector::ExportFormat& format = format_of(options.format);
  check_moment(format, options.at);
  check_output(format, options.out);
  require_output(options.out, {options.log});
  if (format.write_events != nullptr) return export_events(format, options);
  ProgressBar bar;
  const std::string log = process_log(options.log, options.process);
  collector::Profile profile(log, bar.callback(), nullptr, options.reading);
  const collector::ExportOptions what{options.scope, bar.callback(),
                                      options.process.empty() ? options.log : log, options.at};
  if (format.write_file != nullptr) {
    replace_file(options.out,
                 [&](const std::string& fresh) { format.write_file(profile, what, fresh); });
  } else {
    const auto packing =
        format.packed ? collector::OutputPacking::kNone : collector::packing_of(options.out);
    write_output(options.out, [&](std::ostream& out) {
      collector::write_packed(packing, out,
                              [&](std::ostream& to) { format.write(profile, what, to); });
    });
  }
  say_written(options.out);
  const collector::Quality quality = profile.quality();
  for (const collector::Warning& warning : quality.warnings)
    spdlog::warn("{} {}", code_text(warning.code), warning.message);
  return strict_code(options.strict, is_whole(quality));
}

}  // namespace

void add_export(CommandLine& line) {
  auto [verb, options] = line.add("export", "Write a log in a format of other tools", export_log,
                                  R"(  gpupeak export chrome bert.gplog -o bert.json
  gpupeak export sqlite bert.gplog -o bert.sqlite
  gpupeak export events bert.gplog | grep device_alloc)");
  std::vector<std::string> names;
  std::string formats = "Formats:";
  for (const collector::ExportFormat& format : collector::export_formats()) {
    names.emplace_back(format.name);
    if (!format.alias.empty()) names.emplace_back(format.alias);
    const std::string both =
        std::string(format.name) + (format.alias.empty() ? "" : ", " + std::string(format.alias));
    formats += fmt::format("\n  {:<16} {}", both, format.description);
  }
  add_required(verb, "format", options.format, "FORMAT", "One of those below")
      ->check(one_of(names));
  add_required(verb, "log", options.log, "LOG", "A log that `run` or the preloaded library wrote");
  add_process(verb, options.process);
  add_out(verb, options.out);
  add_scope(verb, options.scope);
  add_value(verb, "--at", options.at, "MOMENT",
            "Another moment than the peak: +1.25s, a mark, a phase, PHASE.end, end");
  add_strict(verb, options.strict);
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
  verb.footer(verb.get_footer() + "\n" + formats);
}

}  // namespace gpupeak::tools
