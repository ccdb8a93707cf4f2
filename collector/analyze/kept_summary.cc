#include "collector/analyze/kept_summary.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include "collector/files/fresh_file.h"
#include "collector/log/perf_map.h"
#include "collector/rules/rule_book.h"
#include "collector/summary/summary_bytes.h"
#include "collector/symbols/debug_files.h"
#include "collector/text/byte_pack.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kMagic = "gpupeak summary 1\n";
constexpr std::string_view kFolder = "summaries";
constexpr uint64_t kMostBytes = 64 << 20;  // of all summaries that are kept
constexpr uint64_t kMostOfOne = kMostBytes / 4;
/// How long a log must have been unchanged: a program writes its last events after its exit
/// handlers.
constexpr std::chrono::seconds kSettled{2};
/// After so long a server may have what it did not have. libdebuginfod, too, asks again after this
/// time.
constexpr std::chrono::minutes kServersMiss{10};

std::string canonical(const std::string& path) {
  std::error_code error;
  const std::string found = std::filesystem::canonical(path, error).string();
  return error ? "" : found;
}

/// Where the log's file of symbols may lie: beside the path that was given, which may be a link.
std::string symbols_beside(const std::string& log) {
  const std::filesystem::path path(log);
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  return canonical(folder) + "/" + path.filename().string() + kSymbolsSuffix;
}

/// The rule sets that are files, and not built in.
std::vector<std::string> rule_files(const RuleChoice& rules) {
  std::vector<std::string> files;
  for (const std::string& name : rules.sets) {
    const bool builtin = name == "auto" || name == "none" ||
                         std::ranges::any_of(builtin_rules(), [&](const BuiltinRules& set) {
                           return set.name == name;
                         });
    if (!builtin) files.push_back(canonical(name));
  }
  return files;
}

/// Whether rows have their stacks. If they are few, always, so that one summary serves text and
/// JSON.
bool with_stacks(const Options& options) {
  constexpr size_t kFewRows = 1000;
  return options.stacks || options.top <= kFewRows;
}

/// All that a summary depends on, except for files.
std::string key_of(const std::string& log, const Options& options) {
  BytePacker key;
  key.text(log);
  key.number(options.top);
  key.number(options.by);
  key.number(with_stacks(options));
  const SymbolSearch& search = options.reading.search;
  key.number(search.files);
  key.text(debug_servers());
  const RuleChoice& rules = options.reading.rules;
  for (const auto* texts : {&search.debug_dirs, &rules.sets, &rules.phases, &rules.tags}) {
    key.count(texts->size());
    for (const std::string& text : *texts) key.text(text);
  }
  key.text(search.sysroot);
  return key.bytes();
}

}  // namespace

KeptSummary::KeptSummary(const std::string& log, const Options& options, uint64_t worth_bytes)
    : path_(log),
      worth_bytes_(worth_bytes),
      sanitizer_(options.reading.sanitizer),
      search_(options.reading.search) {
  // With --confidential nothing is kept.
  if (sanitizer_.is_confidential()) return;
  log_ = canonical(log);
  if (log_.empty()) return;
  key_ = key_of(log_, options);
  files_.push_back(state_of_file(log_));
  files_.push_back(state_of_file(symbols_beside(log)));
  files_.push_back(state_of_command());  // another build may make another summary
  for (const std::string& file : rule_files(options.reading.rules))
    files_.push_back(state_of_file(file));
}

std::string KeptSummary::file() const {
  const std::string folder = cache_folder(kFolder);
  return folder.empty() ? folder : cache_entry(folder, key_);
}

std::optional<Summary> KeptSummary::find(Time now) const {
  const std::string path = log_.empty() ? "" : file();
  const auto sealed = path.empty() ? std::nullopt : read_cache_file(path);
  const auto bytes = sealed ? unseal(kMagic, *sealed) : std::nullopt;
  if (!bytes) return std::nullopt;
  ByteUnpacker in(*bytes);
  if (in.text() != key_) return std::nullopt;
  const Time made{Time::duration(in.number<Time::rep>())};
  if (!debug_servers().empty() && now - made > kServersMiss) return std::nullopt;
  const uint32_t count = in.count(1);
  for (uint32_t i = 0; i < count && !in.failed(); ++i) {
    const FileState then = unpack_state(in);
    if (i < files_.size() ? then != files_[i] : then != state_of_file(then.path))
      return std::nullopt;
  }
  std::optional<Summary> summary = unpack_summary(in.text());
  if (summary) summary->log_path = sanitizer_.text(path_);
  return summary;
}

bool KeptSummary::can_keep(const LogReader& log) {
  if (log_.empty() || log.used_bytes() < worth_bytes_ || log.left_heap_out()) return false;
  if (access(cache_folder(kFolder).c_str(), W_OK | X_OK) != 0) return false;
  const auto now = Time::clock::now().time_since_epoch();
  const auto age = now - std::chrono::nanoseconds(files_.front().modified_ns);
  const bool is_packed = files_.front().bytes != log.file_bytes();
  const bool ended = log.counters().exit_kind != GPUPEAK_EXIT_UNKNOWN ||
                     (log.counters().ended != 0 && age > kSettled);
  // Profiles of ONNX Runtime are in files of their own, and a problem with symbols names the log.
  if ((!is_packed && !ended) || has_ort_profiles(log) || !log.symbols_problem().empty())
    return false;
  for (const std::string& file : log.model_tensors().files()) files_.push_back(state_of_file(file));
  if (!search_.files) return true;
  files_.push_back(state_of_file(perf_map_path(log.header())));
  for (const Module& module : log.definitions().modules()) {
    for (std::string& file : watched_symbol_files(module, search_))
      files_.push_back(state_of_file(std::move(file)));
  }
  return true;
}

bool KeptSummary::is_unchanged() const {
  return std::ranges::all_of(
      files_, [](const FileState& state) { return state == state_of_file(state.path); });
}

void KeptSummary::keep(const Summary& summary) const {
  const std::string path = file();
  if (path.empty() || !is_unchanged()) return;
  BytePacker out;
  out.text(key_);
  out.number(Time::clock::now().time_since_epoch().count());
  out.count(files_.size());
  for (const FileState& state : files_) pack(state, out);
  out.text(pack_summary(summary));
  if (out.bytes().size() > kMostOfOne) return;
  keep_in_cache(path, seal(kMagic, out.bytes()), kMostBytes);
}

namespace {

/// Completes a kept summary, which may have been made for a report that does not show all of it.
void complete_kept(KeptSummary& kept, Summary& summary, const std::string& log,
                   const Options& options, const Progress& progress) {
  if (options.complete == nullptr) {
    summary.lowering.reset();
    return;
  }
  if (summary.lowering || !options.complete(summary, log, options, progress)) return;
  const LogReader reader(log, options.reading.sanitizer, options.reading.heap);
  if (options.keep && kept.can_keep(reader)) kept.keep(summary);
}

}  // namespace

Summary kept_or_analyzed(const std::string& log, const Options& options, const Progress& progress,
                         uint64_t worth_bytes) {
  KeptSummary kept(log, options, worth_bytes);
  if (auto summary = kept.find()) {
    complete_kept(kept, *summary, log, options, progress);
    return *std::move(summary);
  }
  auto reader =
      std::make_unique<const LogReader>(log, options.reading.sanitizer, options.reading.heap);
  const bool keeps = options.keep && options.all_tables && kept.can_keep(*reader);
  Options all = options;
  all.stacks = options.stacks || (keeps && with_stacks(options));
  Summary summary = analyze(*reader, log, all, progress);
  if (options.complete != nullptr) options.complete(summary, log, options, progress);
  if (keeps) kept.keep(summary);
  if (options.process_ends) static_cast<void>(reader.release());
  return summary;
}

}  // namespace gpupeak::collector
