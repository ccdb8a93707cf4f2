#include "collector/fit/need.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "collector/fit/arena_model.h"
#include "collector/fit/need_watch.h"
#include "collector/log/parallel.h"
#include "collector/summary/run_text.h"
#include "collector/text/name_match.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"
#include "collector/text/text_format.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {
namespace {

/// From these sizes on it is worth saying.
constexpr uint64_t kMuchUnexplained = 64u << 20;
constexpr uint64_t kMuchPadding = 1u << 20;

/// Arenas of which the inside is not seen, or not in all releases. It is not known how much of
/// their memory is idle, and some take a share of any card that they find.
struct Arena {
  std::string_view modules, name;
  std::string_view arena = {};  ///< the name of its arenas in the log, if it is seen
};
constexpr Arena kArenas[] = {
    {"*xla_cuda_plugin*", "JAX", "XLA"},
    {"*xla_extension*", "JAX"},
    {"*libtensorflow*", "TensorFlow"},
    {"*_pywrap_tensorflow*", "TensorFlow"},
    {"*/cupy/*", "CuPy"},
    {"*librmm*", "RMM"},
    {"*libonnxruntime_providers_cuda*", "ONNX Runtime", "ONNX Runtime"},
    {"*libc10_cuda*", "PyTorch", "PyTorch"},
};

void say_once(std::vector<std::string>& texts, std::string text) {
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
}

/// Finds why the bounds of a process do not hold.
class Trust {
 public:
  Trust(const Profile& profile, const Summary& summary, bool is_part)
      : profile_(profile), summary_(summary) {
    losses(is_part);
    if (!is_part) end();
    refusals();
    arenas();
  }
  std::vector<std::string> no_most, no_least, notes;
  /// The program has libraries that ask for a workspace and go on with a smaller one if they do not
  /// get it.
  bool has_workspaces = false;

 private:
  /// Whether the replay comes to the same peaks of devices as the preload's own counters.
  bool peaks_are_the_counters() const {
    const gpupeak_counters_page& page = profile_.log().counters();
    if (page.ended == 0) return false;
    const uint32_t devices = std::min<uint32_t>(page.device_count, GPUPEAK_LOG_MAX_DEVICES);
    for (uint32_t i = 0; i < devices; ++i) {
      const std::string scope = ScopeKey::device(static_cast<int32_t>(i)).text();
      if (profile_.replay().sum(scope).peak != page.device[i].total.peak) return false;
    }
    return true;
  }

  void losses(bool is_part) {
    for (const Warning& warning : summary_.quality.warnings) {
      const bool heap_alone =
          warning.code == WarningCode::kContradictions && peaks_are_the_counters();
      const bool only_the_end =
          warning.code == WarningCode::kLogHasNoEnd || warning.code == WarningCode::kStillRunning;
      if (heap_alone || (is_part && only_the_end)) continue;
      const std::string text = code_text(warning.code) + ": " + warning.message;
      if (!keeps_upper_bound(warning.code)) no_most.push_back(text);
      if (!keeps_lower_bound(warning.code)) no_least.push_back(text);
    }
  }

  void end() {
    const RunEnd& end = summary_.run.end;
    if (end.kind == ExitKind::kSignal) {
      no_most.push_back(
          fmt::format("{} ended the program: what it would have needed after that is not known",
                      signal_name(end.code)));
    } else if (end.kind == ExitKind::kExit && end.code != 0) {
      no_most.push_back(fmt::format(
          "the program ended with exit code {}: what it would have needed after that is not known",
          end.code));
    } else if (end.kind == ExitKind::kUnknown && profile_.log().counters().ended != 0) {
      notes.push_back(
          "with which exit code the program ended is not known, since `gpupeak run` did not start "
          "it: if it failed, it may need more");
    }
  }

  void refusals() {
    const auto of_device = std::ranges::count_if(
        summary_.oom, [](const OutOfMemory& oom) { return !oom.on_host && !oom.only_addresses; });
    if (of_device == 0) return;
    no_most.push_back(fmt::format(
        "{} for device memory {} refused: with more memory the program would have taken more",
        of_device == 1 ? "a request" : "requests", of_device == 1 ? "was" : "were"));
  }

  bool is_seen(std::string_view name) const {
    const auto& arenas = summary_.arenas;
    return !name.empty() && std::ranges::any_of(arenas, [&](const ArenaSummary& arena) {
      return arena.device.has_value() && arena.name.starts_with(name);
    });
  }

  void arenas() {
    for (const Module& module : profile_.definitions().modules()) {
      // Loaded when the first convolution is planned.
      has_workspaces |= glob_match("*libcudnn_engines*", module.path) ||
                        glob_match("*libcudnn_cnn*", module.path);
      for (const Arena& arena : kArenas) {
        if (!glob_match(arena.modules, module.path) || is_seen(arena.arena)) continue;
        say_once(no_least, fmt::format("{}'s pool was not seen inside: how much of it is idle, and "
                                       "whether it would take less of a smaller card, is not known",
                                       arena.name));
      }
    }
  }

  const Profile& profile_;
  const Summary& summary_;
};

/// Finds how little memory is enough, by what the arena does when it is refused.
void simulate(DeviceNeed& need, const ArenaRequests& arena, const NeedWatch::Sums& sums) {
  need.arena_requests = arena.requests();
  need.arena_repeated = arena.repeated();
  if (arena.requests() == 0) return;
  need.simulated = arena.rules()->when_refused();
  need.no_simulation = arena.why_not();
  if (!need.no_simulation.empty()) return;
  std::optional<std::vector<FitRange>> fails =
      fails_for(arena, need.least_bytes.value_or(0), sums.most);
  if (!fails) {
    need.no_simulation = "its segments, each in pages of its own, need more than the driver said";
    return;
  }
  need.fails = std::move(*fails);
  for (FitRange& range : need.fails) range.end += *need.most_bytes - sums.most;
  need.fails = joined(std::move(need.fails));
}

/// `peak`: the peak of this memory; nullptr: it is not known who holds it.
LeftOut left_out(std::string_view kind, uint64_t bytes, const Peak* peak) {
  LeftOut left{std::string(kind), bytes, {}, bytes};
  if (peak == nullptr || peak->bytes != bytes) return left;
  left.other_bytes = peak->other_bytes;
  for (const Holder& holder : peak->holders) left.holders.push_back({holder.title, holder.bytes});
  return left;
}

DeviceNeed need_of(const NeedWatch::Sums& sums, const ArenaRequests* arena, const Summary& summary,
                   const DeviceSummary& device, const Trust& trust) {
  DeviceNeed need;
  need.device = device.ordinal;
  need.uuid = device.uuid;
  need.name = device.name;
  need.card_bytes = device.total_bytes;
  need.held_bytes = sums.held;
  need.no_most = trust.no_most;
  need.no_least = trust.no_least;
  need.notes = trust.notes;
  if (sums.beyond) {
    need.beyond_bytes = sums.beyond->most;
    need.local_memory_bytes = sums.local_memory;
    if (sums.unexplained >= kMuchUnexplained) {
      need.notes.push_back(
          fmt::format("up to {} of what the driver had in use is explained by nothing that was "
                      "seen: counted as needed, other processes' or not",
                      size_text(sums.unexplained)));
    }
    if (device.ledger && device.ledger->at_peak.of_process &&
        device.ledger->at_peak.others_bytes.value_or(0) > 0) {
      const LedgerView& view = device.ledger->at_peak;
      need.notes.push_back(fmt::format("others held {} of the card{}: no part of these figures",
                                       size_text(*view.others_bytes),
                                       others_list(view, TextStyle())));
    }
    if (!sums.others_known)
      need.notes.push_back(
          "the driver does not tell other processes' memory apart here: if they took or gave back "
          "memory meanwhile, the figures are off by that");
  } else {
    need.no_most.push_back(
        "the driver was not asked what it has in use (GPUPEAK_LEDGER=off, or no NVML): what "
        "contexts and code take is not known");
  }
  for (const std::string_view kind : {"managed", "imported"}) {
    constexpr uint64_t kMuch = 16 << 20;
    const uint64_t bytes =
        metric(device.metrics, fmt::format("device.{}.peak_bytes", kind)).value_or(0);
    if (bytes < kMuch) continue;
    need.left_out.push_back(
        left_out(kind, bytes, summary.find_peak(ScopeKey::device(device.ordinal, kind).text())));
  }
  if (device.is_integrated())
    need.no_most.push_back(
        "the card's memory is the host's: what the program needs of it as host memory is no part "
        "of these figures");
  if (need.no_least.empty()) {
    need.in_use_bytes = trust.has_workspaces ? sums.lean_in_use : sums.in_use;
    need.least_bytes = trust.has_workspaces ? sums.lean_least : sums.least;
    if (trust.has_workspaces) {
      need.notes.push_back(
          "cuDNN plans convolutions by the room there is: \"at least\" is without the largest "
          "block in use at each instant, which may be its workspace");
    }
    if (!summary.run.end.in_order()) need.refused_bytes = sums.refused;
    need.padding_bytes = sums.padding;
    if (sums.padding >= kMuchPadding) {
      need.notes.push_back(
          fmt::format("up to {} of what pools had in use were not asked for: they give whole "
                      "pieces where little would be left. That is no part of \"at least\", since "
                      "with less memory their pieces are others",
                      size_text(*sums.padding)));
    }
  }
  if (need.no_most.empty()) {
    // NVML's own figure for the process may be larger.
    const auto own = metric(device.metrics, "device.nvml_process.peak_bytes");
    need.most_bytes = std::max(sums.most, own.value_or(0));
    if (arena != nullptr) simulate(need, *arena, sums);
  }
  return need;
}

LogNeeds needs_of_program(const std::string& path, const Options& options, const Progress& progress,
                          bool is_part, size_t* parts) {
  LogNeeds found;
  NeedWatch first;  // outlives the profile, whose replay points to it
  Reading reading = options.reading;
  reading.heap = HeapReading::kNone;
  Profile profile(path, progress, &first, reading);
  std::optional<NeedWatch> again;
  const auto& shared_out = profile.replay().arenas().shared_out();
  if (!shared_out.empty()) {
    again.emplace(shared_out, rules_of(profile.replay()));
    profile.replay_again(*again, progress);
  }
  NeedWatch& watch = again ? *again : first;
  const std::map<int32_t, NeedWatch::Sums> sums = watch.finish();
  found.summary = summarize(profile, options);
  const Trust trust(profile, found.summary, is_part);
  for (const DeviceSummary& device : found.summary.devices) {
    const auto entry = sums.find(device.ordinal);
    if (entry == sums.end()) continue;
    found.devices.push_back(
        need_of(entry->second, watch.arena(device.ordinal), found.summary, device, trust));
  }
  if (parts != nullptr) *parts = profile.log().parts().size();
  return found;
}

bool is_same_device(const DeviceNeed& a, const DeviceNeed& b) {
  return a.uuid.empty() || b.uuid.empty() ? a.device == b.device : a.uuid == b.uuid;
}

/// A change of less is not worth a row.
constexpr uint64_t kLeastChange = 1u << 20;

std::string arena_advice(const std::string& arena) {
  if (arena == "PyTorch") return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  if (arena.find("Cuda") != std::string::npos || arena.starts_with("ONNX"))
    return "arena_extend_strategy=kSameAsRequested";
  return "";
}

/// Adds what one process's device has at its peak: first what nobody uses, then who holds the rest.
void add_changes(const Summary& summary, const DeviceSummary& device, FitDevice& out) {
  for (const ArenaSummary& arena : summary.arenas) {
    if (arena.device != device.ordinal || !arena.at_device_peak) continue;
    out.changes.push_back({"idle in " + arena.name + "'s pool", arena.at_device_peak->idle_bytes(),
                           true, arena_advice(arena.name)});
  }
  if (device.ledger) {
    for (const LedgerRow& row : device.ledger->at_peak.rows) {
      const uint64_t bytes = row.bytes > 0 ? static_cast<uint64_t>(row.bytes) : 0;
      if (row.cause == "pool_slack") {
        out.changes.push_back({"idle in the driver's memory pools", bytes, true,
                               "a lower cudaMemPoolAttrReleaseThreshold"});
      } else if (row.cause == "rounding") {
        out.changes.push_back({"rounding to pages of 2 MiB", bytes, true, ""});
      } else if (row.cause == "local_memory") {
        out.changes.push_back({"local memory of kernels", bytes, false, ""});
      } else if (row.cause == "code") {
        out.changes.push_back({"code", bytes, false, ""});
      }
    }
  }
  const Peak* peak = summary.find_peak(ScopeKey::device(device.ordinal).text());
  if (peak == nullptr) return;
  for (const Holder& holder : peak->holders) {
    if (holder.kind == "device.idle") continue;
    out.changes.push_back({holder.title, holder.bytes, false, holder.temporary ? "temporary" : ""});
  }
  if (peak->tags.empty() || !out.tags.empty()) return;
  out.tags = peak->tags;
}

void sort_changes(std::vector<FitChange>& changes) {
  std::erase_if(changes, [](const FitChange& change) { return change.bytes < kLeastChange; });
  std::ranges::stable_sort(changes, std::ranges::greater(), &FitChange::bytes);
}

/// All variants together may go through so many steps, some seconds.
constexpr uint64_t kMostWork = 30'000'000;
/// If that is too little to try every capacity at which the run goes another way, they are at most
/// this far apart.
constexpr uint64_t kCoarsest = 8u << 20;

/// The amounts with which one variant fails. It tries `runs` amounts, each at least `apart` below
/// the one before, or where the run goes another way.
std::optional<std::vector<FitRange>> fails_of(const ArenaRequests& history, uint64_t least,
                                              uint64_t most, uint64_t runs, uint64_t apart,
                                              unsigned variant) {
  std::vector<FitRange> fails;
  uint64_t known = most + 1;  // from this amount on the answer is known
  bool fits = true;           // whether the run fits there
  for (uint64_t i = 0; i < runs && known > least; ++i) {
    const uint64_t capacity = known - std::min(known, known > most ? 1 : apart);
    const HeldRun run = hold(history, capacity, variant);
    if (known > most && !run.fits) return std::nullopt;
    // Amounts between two that were tried count as the worse of them.
    if (!run.fits) {
      fails.push_back({run.needed, known});
    } else if (!fits && capacity + 1 < known) {
      fails.push_back({capacity + 1, known});
    }
    known = run.needed;
    fits = run.fits;
  }
  if (known > least) fails.push_back({0, known});
  return fails;
}

}  // namespace

LogNeeds needs_of(const std::string& path, const Options& options, const Progress& progress) {
  size_t parts = 0;
  LogNeeds all = needs_of_program(path, options, progress, false, &parts);
  for (size_t part = 1; part <= parts; ++part) {
    const LogNeeds other =
        needs_of_program(path + "#" + std::to_string(part), options, progress, true, nullptr);
    for (const DeviceNeed& need : other.devices) {
      const auto same = std::ranges::find_if(
          all.devices, [&](const auto& of) { return is_same_device(of, need); });
      if (same == all.devices.end()) {
        all.devices.push_back(need);
      } else {
        *same = in_turn({*same, need});
      }
    }
  }
  return all;
}

std::string take_upper_bounds(const std::vector<RunLogs>& runs, std::vector<LogNeeds>& needs) {
  std::vector<std::string> missing;
  for (const RunLogs& run : runs) {
    if (run.lost > 0)
      missing.push_back(fmt::format("{} of the run's logs cannot be read", run.lost));
    if (!run.record) continue;
    for (const RunRecord::Unrecorded& process : run.record->unrecorded) {
      if (process.used_gpu)
        missing.push_back(fmt::format("pid {} {} used a GPU and was not recorded", process.pid,
                                      escape(process.name)));
    }
  }
  const std::string why = fmt::format("{}", fmt::join(missing, "; "));
  for (LogNeeds& of_log : needs) {
    for (DeviceNeed& need : of_log.devices) {
      if (missing.empty()) break;
      need.most_bytes.reset();
      need.fails.clear();
      need.no_most.push_back(why);
    }
  }
  return why;
}

FitReport answer_fit(const std::vector<LogNeeds>& logs, const FitQuestion& question) {
  FitReport report;
  report.question = question;
  std::vector<std::vector<DeviceNeed>> needs;  // by device of the report
  for (size_t i = 0; i < logs.size(); ++i) {
    const Summary& summary = logs[i].summary;
    report.logs.push_back(summary.log_path);
    for (const DeviceNeed& need : logs[i].devices) {
      auto known = std::ranges::find_if(report.devices, [&](const FitDevice& of) {
        return of.host == summary.run.host && is_same_device(of.need, need);
      });
      if (known == report.devices.end()) {
        FitDevice& fresh = report.devices.emplace_back();
        fresh.host = summary.run.host;
        fresh.need = need;
        needs.emplace_back();
        known = std::prev(report.devices.end());
      }
      known->logs.push_back(i);
      needs[static_cast<size_t>(known - report.devices.begin())].push_back(need);
      for (const DeviceSummary& device : summary.devices) {
        if (device.ordinal == need.device) add_changes(summary, device, *known);
      }
    }
  }
  const bool asked = question.capacity || question.card != nullptr;
  if (asked) report.fit = report.devices.empty() ? Fit::kUnknown : Fit::kFits;
  for (size_t i = 0; i < report.devices.size(); ++i) {
    FitDevice& device = report.devices[i];
    device.need = together(needs[i]);
    sort_changes(device.changes);
    if (question.capacity) device.answer = fit_on(device.need, *question.capacity);
    if (question.card != nullptr) device.answer = fit_on(device.need, *question.card);
    if (device.answer) report.fit = worse(*report.fit, device.answer->fit);
    for (const Card& card : question.cards) device.cards.push_back(fit_on(device.need, card));
  }
  return report;
}

HeldRun hold(const ArenaRequests& history, uint64_t capacity, unsigned variant) {
  using Asked = ArenaForecast::Asked;
  const bool is_mixed = variant >= 4;
  const Asked asked = variant % 2 == 0 ? Asked::kMost : Asked::kLeast;
  const Asked places = variant / 2 == 0 ? Asked::kMost : Asked::kLeast;
  ArenaForecast arena(history, ArenaForecast::Rules::kAsRecorded, is_mixed ? Asked::kMixed : asked,
                      variant, capacity, is_mixed ? Asked::kMixed : places);
  const bool fits = arena.run();
  return {fits, arena.needed()};
}

std::optional<std::vector<FitRange>> fails_for(const ArenaRequests& history, uint64_t least,
                                               uint64_t most) {
  const uint64_t runs =
      kMostWork / kHeldRunVariants / std::max<uint64_t>(history.steps().size(), 1) + 1;
  // Runs go another way where a segment has room or not, so the amounts are some pages apart.
  const uint64_t span = most - std::min(least, most);
  const uint64_t apart = span / runs < kDriverPageBytes ? 1 : std::min(span / runs, kCoarsest);
  std::vector<std::optional<std::vector<FitRange>>> variants(kHeldRunVariants);
  in_parallel(kHeldRunVariants, 1, [&](size_t variant, size_t) {
    variants[variant] = fails_of(history, least, most, runs, apart, static_cast<unsigned>(variant));
  });
  std::vector<FitRange> all{{0, least}};
  for (const auto& fails : variants) {
    if (!fails) return std::nullopt;  // it contradicts what the driver said
    all.insert(all.end(), fails->begin(), fails->end());
  }
  return joined(std::move(all));
}

}  // namespace gpupeak::collector
