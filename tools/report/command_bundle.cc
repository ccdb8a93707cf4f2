#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/log/symbol_table.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/keep_names.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {
namespace {

struct BundleOptions {
  std::string log;
  std::string out;  ///< file; empty: beside the log
  bool quiet = false;
  bool symbols_alone = false, log_alone = false, undo = false;
  collector::SymbolSearch search;
};

constexpr std::string_view kLogSuffix = ".gplog";

/// "x.gplog" → "x" + `suffix`.
std::string beside(const std::string& log, const char* suffix) {
  const bool plain = log.ends_with(kLogSuffix);
  return log.substr(0, log.size() - (plain ? kLogSuffix.size() : 0)) + suffix;
}

/// What is made of a log may be read by those alone who may read the log.
void write_beside(const BundleOptions& options, const std::string& path,
                  const std::function<void(std::ostream&)>& write) {
  struct stat log {};
  write_output(path, write, stat(options.log.c_str(), &log) == 0 ? log.st_mode & 0666 : 0600);
}

/// The symbols of a log as JSON. Says on standard error which modules have none.
std::string resolve(const collector::LogReader& log, const BundleOptions& options) {
  ProgressBar bar("resolving");
  const collector::Symbolized symbols =
      collector::symbolize(log, options.search, collector::builtin_name_rules(), bar.callback());
  bar.clear();
  for (const collector::Warning& warning : symbols.warnings)
    spdlog::warn("{}  {}", code_text(warning.code), warning.message);
  if (!options.quiet) {
    say("{} of {} addresses have a function{}", symbols.named, symbols.addresses,
        symbols.named < symbols.addresses ? "; rows show the others as library+offset" : "");
  }
  return symbols.table.json(log.header().cookie);
}

/// Bytes of the log, without the hole at its end that a killed process leaves.
uint64_t written_bytes(const collector::LogReader& log) {
  return std::min(log.file_bytes(), std::max(log.used_bytes(), log.counters().file_bytes));
}

void pack(const collector::LogReader& log, const std::string& symbols, const BundleOptions& options,
          const std::string& path) {
  ProgressBar bar("compressing");
  try {
    write_beside(options, path, [&](std::ostream& out) {
      collector::write_packed(std::span(log.data(), written_bytes(log)), symbols, out,
                              bar.callback());
    });
  } catch (const collector::TooUniform& error) {
    throw collector::UsageError("{} is not compressed: {}", collector::escape(options.log),
                                error.what());
  }
}

constexpr const char* kPackedSuffix = ".zst";
constexpr const char* kBundleSuffix = ".gpbundle";

/// The name of the plain log of a package. A package that `run` made in place has a log's name
/// itself.
std::string name_of_log(const std::string& package) {
  for (const std::string_view suffix : {kPackedSuffix, kBundleSuffix}) {
    if (!package.ends_with(suffix)) continue;
    const std::string log = package.substr(0, package.size() - suffix.size());
    return log.ends_with(kLogSuffix) ? log : log + std::string(kLogSuffix);
  }
  return beside(package, ".plain.gplog");
}

void require_packed_log(std::span<const uint8_t> file, const std::string& path) {
  if (!collector::is_packed(file))
    throw collector::UsageError("{} is not compressed", collector::escape(path));
  uint64_t magic = 0;
  const std::vector<uint8_t> front = collector::unpack_front(file, path, sizeof magic);
  memcpy(&magic, front.data(), front.size());
  if (magic != GPUPEAK_LOG_MAGIC)
    throw collector::LogError(collector::escape(path) + " is no compressed log", 0);
}

void write_log(const collector::MappedFile& log, std::ostream& out,
               const collector::Progress& progress) {
  constexpr uint64_t kStepBytes = 4 << 20;
  for (uint64_t done = 0; done < log.bytes() && out;) {
    const uint64_t step = std::min(kStepBytes, log.bytes() - done);
    out.write(reinterpret_cast<const char*>(log.data()) + done, static_cast<std::streamsize>(step));
    log.release(done, done + step);
    done += step;
    if (progress) progress(done, log.bytes());
  }
}

void say_sizes(const std::string& path, uint64_t bytes, uint64_t before) {
  say("{}: {} of {}", collector::escape(path), collector::size_text(bytes),
      collector::size_text(before));
}

/// Unpacks the log without looking into it, since the package may hold more than verbs read.
int undo(const BundleOptions& options) {
  const std::string path = options.out.empty() ? name_of_log(options.log) : options.out;
  const std::string symbols_path = path + collector::kSymbolsSuffix;
  require_output(path, {options.log});
  const collector::MappedFile package(options.log);
  const std::span file(package.data(), package.bytes());
  require_packed_log(file, options.log);
  const collector::Unpacked unpacked =
      collector::unpack(file, options.log, collector::Extent::kAll);
  const collector::MappedFile log(unpacked.fd, options.log);
  ProgressBar bar("writing");
  write_beside(options, path, [&](std::ostream& out) { write_log(log, out, bar.callback()); });
  bar.clear();
  if (!unpacked.symbols.empty() && !is_standard_output(path))
    write_beside(options, symbols_path, [&](std::ostream& out) { out << unpacked.symbols; });
  if (!options.quiet && !is_standard_output(path)) say_sizes(path, log.bytes(), package.bytes());
  return kOk;
}

/// The symbols that the log has by itself, as JSON.
std::string own_symbols(const collector::LogReader& log) {
  const bool has_none =
      log.symbols().empty() || collector::is_kept_table(log.symbols(), log.definitions());
  return has_none ? "" : log.symbols().json(log.header().cookie);
}

int bundle(const BundleOptions& options) {
  if (options.undo) return undo(options);
  const std::string path = !options.out.empty()    ? options.out
                           : options.symbols_alone ? options.log + collector::kSymbolsSuffix
                           : options.log_alone     ? options.log + kPackedSuffix
                                                   : beside(options.log, kBundleSuffix);
  require_output(path, {options.log},
                 options.symbols_alone ? Replaces::kNoLogs : Replaces::kPackedLogs);
  const collector::LogReader log(options.log);
  const std::string symbols = options.log_alone ? own_symbols(log) : resolve(log, options);
  if (options.symbols_alone) {
    write_beside(options, path, [&](std::ostream& out) { out << symbols; });
    return kOk;
  }
  pack(log, symbols, options, path);
  struct stat written {};
  if (!options.quiet && stat(path.c_str(), &written) == 0 && S_ISREG(written.st_mode))
    say_sizes(path, static_cast<uint64_t>(written.st_size), written_bytes(log));
  return kOk;
}

}  // namespace

void add_bundle(CommandLine& line) {
  auto [verb, options] =
      line.add("bundle", "One compressed file with log and symbols, readable anywhere", bundle,
               R"(  gpupeak bundle bert.gplog                  makes bert.gpbundle
  gpupeak bundle --symbols bert.gplog        makes bert.gplog.symbols
  gpupeak bundle --log bert.gplog            makes bert.gplog.zst
  gpupeak bundle --undo bert.gplog.zst       and bert.gplog again)");
  // Not "log": newer versions of CLI11 take that for --log.
  add_required(verb, "log-file", options.log, "FILE", "A log that `run` or the library wrote");
  add_value(verb, "-o,--out", options.out, "FILE",
            "File to write; default: the log's name with .gpbundle, .symbols or .zst");
  verb.add_flag("-q,--quiet", options.quiet, "Do not say what was found");
  auto* symbols =
      verb.add_flag("--symbols", options.symbols_alone,
                    "The functions and lines alone, beside the log, where reports find them");
  verb.add_flag("--log", options.log_alone, "The log alone, compressed; every verb reads it")
      ->excludes(symbols);
  verb.add_flag("--undo", options.undo,
                "Write the log that is in a compressed one or a bundle, however large")
      ->excludes(symbols);
  add_symbol_search(verb, options.search);
}

}  // namespace gpupeak::tools
