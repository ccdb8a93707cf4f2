#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <optional>

#include "collector/export/export.h"
#include "collector/text/error.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "rule_choice.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

const collector::ExportFormat& format_of(const std::string& name) {
  for (const collector::ExportFormat& format : collector::export_formats()) {
    if (format.name == name) return format;
  }
  throw collector::UsageError(fmt::format("there is no format '{}'", name));
}

void check_output(const collector::ExportFormat& format, const std::string& out) {
  if (!out.empty()) return;
  if (format.write_file != nullptr) {
    throw collector::UsageError(fmt::format("{} is a file: name it with -o FILE", format.name));
  }
  if (format.binary && isatty(STDOUT_FILENO) != 0) {
    throw collector::UsageError(
        fmt::format("{} is nothing for a terminal: name a file with -o FILE", format.name));
  }
}

}  // namespace

int export_log(const ExportOptions& options) {
  const collector::ExportFormat& format = format_of(options.format);
  check_output(format, options.out);
  ProgressBar bar;
  collector::Profile profile(options.log, bar.callback(), nullptr, rule_choice(options.rules));
  const collector::ExportOptions what{options.scope, bar.callback()};
  if (format.write_file != nullptr) {
    replace_file(options.out, [&](const std::string& fresh) {
      unlink(fresh.c_str());
      format.write_file(profile, what, fresh);
    });
  } else {
    write_output(options.out, [&](std::ostream& out) { format.write(profile, what, out); });
  }
  const collector::Quality quality = profile.quality();
  for (const collector::Warning& warning : quality.warnings) {
    spdlog::warn("{} {}", warning.code, warning.message);
  }
  return options.strict && !quality.exact ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
