#include "collector/analyze/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "collector/analyze/summary_parts.h"
#include "collector/files/regular_file.h"
#include "collector/log/kinds.h"
#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/function_names.h"
#include "collector/text/name_match.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

/// More calls than any recorded stack has, with inlined ones. A damaged log may have longer stacks.
constexpr size_t kMaxCalls = 4 * GPUPEAK_MAX_FRAMES;

/// Real logs have at most one call for each byte or two. Writing a call takes half a microsecond.
constexpr uint64_t kAlwaysWrittenCalls = 4 << 20, kWrittenCallsPerByte = 4;

/// A program that runs has its file, also where nothing else leads to it any more.
SymbolSearch search_for(const LogReader& log, SymbolSearch search) {
  if (state_of(log.header(), log.counters()) != LogState::kRunning) return search;
  const FileState runs = state_of_file(folder_of_process(log.header()) + "/exe");
  std::error_code error;
  const std::string path = without_deleted(std::filesystem::read_symlink(runs.path, error));
  const FileState there = state_of_file(path);
  if (runs.inode == 0 || (there.device == runs.device && there.inode == runs.inode)) return search;
  search.opened[path] = {runs.path};
  search.add_build_ids();
  search.keep = false;
  return search;
}

}  // namespace

Profile::Profile(const std::string& path, const Progress& progress, ReplayObserver* observer,
                 const Reading& reading)
    : Profile(std::make_unique<const LogReader>(path, reading.sanitizer, reading.heap), path,
              progress, observer, reading) {
  tell_calls_apart(replay_, titles_, reading.heap != HeapReading::kNone);
}

Profile::Profile(std::unique_ptr<const LogReader> log, const std::string& path,
                 const Progress& progress, ReplayObserver* observer, const Reading& reading)
    : Profile(*log, path, progress, observer, reading) {
  own_log_ = std::move(log);
}

Profile::Profile(const LogReader& log, const std::string& path, const Progress& progress,
                 ReplayObserver* observer, const Reading& reading)
    : path_(path),
      log_(log),
      replay_(log_, observer),
      coverage_(coverage_of(log_)),
      symbolizer_(log_.definitions(), search_for(log_, reading.search), &log_.symbols(),
                  &builtin_name_rules()),
      rules_(choose_rules(reading.rules, log_.definitions())),
      phases_(log_.definitions(), symbolizer_, rules_.phases),
      tagger_(replay_, symbolizer_, rules_.tags),
      titles_(log_.definitions(), symbolizer_),
      sites_(replay_, titles_, GroupBy::kSite) {
  replay_.use_phases(phases_);
  replay_.run(progress);
}

void Profile::replay_again(ReplayObserver& observer, const Progress& progress) const {
  Replay replay(log_, &observer);
  replay.use_phases(phases_);
  replay.run(progress);
}

std::vector<ScopeId> Profile::scopes() const {
  std::vector<ScopeId> found;
  for (ScopeId id{}; id < replay_.sites().scopes().size(); ++id) {
    if (sum(id).peak > 0 && covers_scope(coverage_, scope_info(id).name)) found.push_back(id);
  }
  std::ranges::sort(found, {}, [&](ScopeId id) { return scope_info(id).name; });
  return found;
}

ScopeId Profile::scope(const std::string& name) const {
  const std::vector<ScopeId> known = scopes();
  const auto find = [&](const std::string& wanted) {
    return std::ranges::find_if(known, [&](ScopeId id) { return scope_info(id).name == wanted; });
  };
  if (!name.empty()) {
    if (const auto found = find(name); found != known.end()) return *found;
    const auto names = list_of(known, [&](ScopeId id) { return scope_info(id).name; });
    throw UsageError("the log has no memory of scope '{}'{}", escape(name),
                     did_you_mean(name, names));
  }
  const auto is_device = [&](ScopeId id) {
    return scope_info(id).device >= 0 && scope_info(id).kind == 0;
  };
  if (std::ranges::count_if(known, is_device) == 1) return *std::ranges::find_if(known, is_device);
  for (const char* usual : {"device", "host", "host/pinned"}) {
    if (const auto found = find(usual); found != known.end()) return *found;
  }
  return *replay_.sites().find_scope("device");  // it always exists; nothing was allocated
}

bool Profile::counts_into(GroupId group, ScopeId scope) const {
  return collector::counts_into(replay_.sites().context_of(group), scope_info(scope));
}

std::vector<Contribution> Profile::at_peak(ScopeId scope) const {
  return contributions_at_peak(replay_, scope);
}

std::vector<Contribution> Profile::live_in(const Replay& replay, ScopeId scope) const {
  std::vector<Contribution> held;
  for (GroupId id{0}; id < replay.sites().group_count(); ++id) {
    const PeakFinder::Group& group = replay.peaks().group(id);
    if (group.live_bytes == 0 || !counts_into(id, scope)) continue;
    held.push_back({id, group.live_bytes, group.live_count});
  }
  return held;
}

std::vector<Call> Profile::calls_to_write(uint32_t stack) {
  std::vector<Call> all = calls(stack);
  calls_written_ += all.size();
  if (calls_written_ > kAlwaysWrittenCalls + kWrittenCallsPerByte * log_.given_bytes())
    refuse_stacks();
  return all;
}

void Profile::refuse_stacks() const {
  const bool packed = log_.given_bytes() < log_.file_bytes();
  throw LogError(
      std::string("its stacks come to many times what it has") +
          (packed ? " (of the log that `gpupeak bundle --undo` writes, more is taken)" : ""),
      0);
}

std::vector<Call> Profile::calls(uint32_t stack, size_t most) {
  most = std::min(most, kMaxCalls);
  const std::vector<StackNode>& nodes = definitions().nodes();
  const bool python = has_python(stack);
  std::vector<Call> calls;
  for (uint32_t node = stack; node != 0 && calls.size() < most; node = nodes[node].parent) {
    const ResolvedAddress& resolved = symbolizer_.resolve(node);
    for (size_t i = 0; i < resolved.frames.size(); ++i) {
      if (resolved.frames[i].module.starts_with(kOwnModule)) continue;
      if (python && resolved.roles[i].interpreter) continue;
      calls.push_back({&resolved.frames[i], resolved.function_ids[i], resolved.place_ids[i]});
    }
  }
  if (calls.size() > most) calls.resize(most);  // inlined calls of the last frame may be too many
  return calls;
}

std::optional<std::string> Profile::phase_at_peak(ScopeId scope) const {
  const GroupId group = sum(scope).peak_group;
  if (group == kNoGroup) return std::nullopt;
  return sites_.phase_name(replay_.sites().context_of(group).phase);
}

std::string Profile::scope_text(ScopeId scope) const {
  const ScopeInfo& info = scope_info(scope);
  std::string text = info.name.starts_with("device") ? "device memory" : "host memory";
  if (info.name == "total") text = "host and device memory";
  if (info.device >= 0) {
    DeviceSummary named;
    named.ordinal = info.device;
    for (const DeviceInfo& device : definitions().devices()) {
      if (static_cast<int32_t>(device.ordinal) == info.device) named.name = escape(device.name);
    }
    text = device_text(named) + ", " + text;
  } else if (info.name.starts_with("device")) {
    text = "all GPUs, " + text;
  }
  if (info.kind != 0) text += fmt::format(", {}", kind_name(info.kind));
  return text;
}

Quality Profile::quality() const {
  return assess_quality(replay_, coverage_, symbolizer_.warnings());
}

}  // namespace gpupeak::collector
