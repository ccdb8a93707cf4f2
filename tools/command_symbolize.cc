#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <span>

#include "collector/log/pack_log.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/symbolize.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

/// What `symbolize`, `bundle` and `compress` have in common.
struct PackOptions {
  std::string log;
  std::string out;  ///< file; empty: beside the log
  bool quiet = false;
  collector::SymbolSearch search;
};

/// "x.gplog" → "x" + `suffix`.
std::string beside(const std::string& log, const char* suffix) {
  constexpr std::string_view kLogSuffix = ".gplog";
  const bool plain = log.ends_with(kLogSuffix);
  return log.substr(0, log.size() - (plain ? kLogSuffix.size() : 0)) + suffix;
}

/// Symbols of a log as JSON; what has none is said on standard error.
std::string resolve(const collector::LogReader& log, const PackOptions& options) {
  ProgressBar bar("resolving");
  const collector::Symbolized symbols =
      collector::symbolize(log, options.search, collector::builtin_name_rules(), bar.callback());
  bar.clear();
  for (const collector::Warning& warning : symbols.warnings) {
    spdlog::warn("{}  {}", code_text(warning.code), warning.message);
  }
  if (!options.quiet) {
    fmt::print(stderr, "gpupeak: {} of {} addresses have a function\n", symbols.named,
               symbols.addresses);
  }
  return symbols.table.json(log.header().cookie);
}

/// Of the log: without the hole behind it, which one that was killed still has.
uint64_t written_bytes(const collector::LogReader& log) {
  return std::min(log.file_bytes(), std::max(log.used_bytes(), log.counters().file_bytes));
}

void pack(const collector::LogReader& log, const std::string& symbols, const std::string& path) {
  ProgressBar bar("compressing");
  write_output(path, [&](std::ostream& out) {
    collector::write_packed(std::span(log.data(), written_bytes(log)), symbols, out,
                            bar.callback());
  });
}

int symbolize(const PackOptions& options) {
  const std::string path =
      options.out.empty() ? options.log + collector::kSymbolsSuffix : options.out;
  require_output(path, {options.log});
  const collector::LogReader log(options.log);
  const std::string symbols = resolve(log, options);
  write_output(path, [&](std::ostream& out) { out << symbols; });
  return kOk;
}

int bundle(const PackOptions& options) {
  const std::string path = options.out.empty() ? beside(options.log, ".gpbundle") : options.out;
  require_output(path, {options.log}, Replaces::kPackedLogs);
  const collector::LogReader log(options.log);
  pack(log, resolve(log, options), path);
  return kOk;
}

int compress(const PackOptions& options) {
  const std::string out = options.out.empty() ? options.log + ".zst" : options.out;
  require_output(out, {options.log}, Replaces::kPackedLogs);
  const collector::LogReader log(options.log);
  const std::string symbols =
      log.symbols().empty() ? "" : log.symbols().json(log.header().cookie);  // a bundle's stay
  pack(log, symbols, out);
  struct stat written {};
  if (!options.quiet && stat(out.c_str(), &written) == 0 && S_ISREG(written.st_mode)) {
    fmt::print(stderr, "gpupeak: {}: {} of {}\n", collector::escape(out),
               collector::size_text(static_cast<uint64_t>(written.st_size)),
               collector::size_text(written_bytes(log)));
  }
  return kOk;
}

}  // namespace

void add_symbolize(CommandLine& line) {
  const auto add = [&](const char* name, const char* description, const char* out, auto run) {
    auto [verb, options] = line.add<PackOptions>(name, description, run);
    add_log(verb, options.log);
    verb.add_option("-o,--out", options.out, std::string("File to write; default: ") + out)
        ->type_name("FILE");
    verb.add_flag("-q,--quiet", options.quiet, "Do not say what was found");
    add_symbol_search(verb, options.search);
  };
  add("symbolize", "Write a log's functions and lines beside it", "LOG.symbols, which reports find",
      symbolize);
  add("bundle", "One compressed file with log and symbols, readable anywhere",
      "the log's name with .gpbundle", bundle);
  add("compress", "Compress a log; every verb reads it", "LOG.zst", compress);
}

}  // namespace gpupeak::tools
