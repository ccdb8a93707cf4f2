#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "collector/analyze.h"
#include "collector/error.h"
#include "collector/write_csv.h"
#include "collector/write_dump.h"
#include "collector/write_json.h"
#include "collector/write_short.h"
#include "collector/write_text.h"
#include "commands.h"
#include "exit_codes.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

void write(const collector::Summary& summary, const ReportOptions& options, std::ostream& out,
           const collector::TextStyle& style) {
  if (options.format == "json")
    collector::write_json(summary, out);
  else if (options.format == "csv")
    collector::write_csv(summary, out);
  else if (options.format == "short")
    collector::write_short(summary, out, style);
  else
    collector::write_text(summary, out, style);
}

/// Written whole or not at all: a full disk leaves no half report behind under the name.
void write_file(const collector::Summary& summary, const ReportOptions& options) {
  const std::string fresh = options.out + ".tmp";
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  write(summary, options, out, style_for(-1, options.color));
  out.close();
  if (!out || rename(fresh.c_str(), options.out.c_str()) != 0) {
    const std::string reason = strerror(errno);
    unlink(fresh.c_str());
    throw std::runtime_error(fmt::format("cannot write {}: {}", options.out, reason));
  }
}

void check_output() {
  std::cout.flush();
  if (!std::cout) throw std::runtime_error("cannot write to standard output");
}

}  // namespace

int report(const ReportOptions& options) {
  collector::Options analysis;
  analysis.by = collector::parse_group_by(options.by);
  analysis.top = options.top;
  analysis.stacks = options.format == "json" || options.format == "csv";
  collector::Summary summary;
  {
    ProgressBar bar;
    summary = collector::analyze(options.log, analysis, bar.callback());
  }
  if (options.out.empty()) {
    write(summary, options, std::cout, style_for(STDOUT_FILENO, options.color));
    check_output();
  } else {
    write_file(summary, options);
  }
  return options.strict && !summary.quality.exact ? kIncomplete : kOk;
}

int dump(const std::string& log) {
  collector::write_dump(log, std::cout);
  check_output();
  return kOk;
}

}  // namespace gpupeak::tools
