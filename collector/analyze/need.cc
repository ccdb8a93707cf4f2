#include "collector/analyze/need.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "collector/log/kinds.h"
#include "collector/text/glob.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

/// What the driver has on a card that nobody uses, at most (3.2 MiB on an H200): where it is not
/// told what of the memory in use at the start was other processes'.
constexpr uint64_t kIdleCard = 16u << 20;
/// Worth saying.
constexpr uint64_t kMuchUnexplained = 64u << 20;

uint64_t positive(int64_t bytes) {
  return static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
}

/// What of the memory that was in use before the first context is this process's.
uint64_t own_start(uint64_t start, const std::optional<uint64_t>& others) {
  return others ? start - std::min(start, *others) : std::min(start, kIdleCard);
}

uint64_t physical(const LedgerSnapshot& now) {
  const TrackedBytes& tracked = now.tracked;
  return positive(static_cast<int64_t>(tracked.linear) + now.linear_rounding) +
         tracked.pool_reserved + tracked.vmm + tracked.array + tracked.graph;
}

/// Without what was there before the first context.
NeedWatch::Beyond beyond_of(const LedgerSnapshot& now) {
  int64_t causes = 0;
  for (const int64_t bytes : now.causes) causes += bytes;
  const int64_t managed = now.causes[GPUPEAK_LEDGER_MANAGED];
  // Without a reading before the first context that row has other processes' memory in it.
  const int64_t with_others = now.start ? 0 : now.causes[GPUPEAK_LEDGER_CONTEXT];
  // Managed memory moves to the host where there is no room for it.
  NeedWatch::Beyond beyond{
      positive(causes - managed - with_others + std::min<int64_t>(now.unexplained, 0)),
      positive(causes + std::max<int64_t>(now.unexplained, 0))};
  if (now.own) {
    const auto own = static_cast<int64_t>(*now.own) - static_cast<int64_t>(physical(now));
    beyond.most = std::max(beyond.most, positive(own));
    beyond.least = std::min(beyond.least, positive(own - managed));
  }
  return beyond;
}

}  // namespace

bool NeedWatch::counts(const DeviceBlock& block) const {
  const SiteContext& context = replay().sites().context_of(block.group);
  return is_device_kind(context.kind) && context.device >= 0 && counts_into_sum(context.kind);
}

void NeedWatch::on_arena_alloc(const ArenaAllocEvent& alloc, uint32_t /*stack*/) {
  const auto [entry, added] = given_.try_emplace({alloc.arena, alloc.address}, alloc.bytes);
  if (!added) {
    sizes_.erase(sizes_.find(entry->second));
    entry->second = alloc.bytes;
  }
  sizes_.insert(alloc.bytes);
}

void NeedWatch::on_arena_free(const ArenaFreeEvent& free) {
  const auto entry = given_.find({free.arena, free.address});
  if (entry == given_.end()) return;
  sizes_.erase(sizes_.find(entry->second));
  given_.erase(entry);
}

void NeedWatch::on_block_alloc(const DeviceBlock& block) {
  if (!counts(block)) return;
  Device& device = device_of(block);
  const DeviceAllocEvent& alloc = block.alloc;
  const bool of_pool = shared_out_.contains(alloc.id);
  device.sums.refused.reset();
  device.by_kind[alloc.kind] += alloc.bytes;
  if (!of_pool) sizes_.insert(alloc.bytes);
  if (alloc.kind == GPUPEAK_KIND_LINEAR) {
    device.pages.add(alloc.address, alloc.bytes);
    if (!of_pool) {
      device.outside_pages.add(alloc.address, alloc.bytes);
      device.outside_linear += alloc.bytes;
    }
  }
  if (of_pool && !replay().arenas().shared_out().contains(alloc.id) &&
      device.unclaimed.emplace(alloc.id, alloc.bytes).second) {
    device.unclaimed_bytes += alloc.bytes;
  }
}

void NeedWatch::on_block_free(const DeviceBlock& block) {
  if (!counts(block)) return;
  Device& device = device_of(block);
  const DeviceAllocEvent& alloc = block.alloc;
  device.by_kind[alloc.kind] -= alloc.bytes;
  if (!shared_out_.contains(alloc.id)) sizes_.erase(sizes_.find(alloc.bytes));
  if (alloc.kind == GPUPEAK_KIND_LINEAR) {
    device.pages.remove(alloc.address, alloc.bytes);
    if (!shared_out_.contains(alloc.id)) {
      device.outside_pages.remove(alloc.address, alloc.bytes);
      device.outside_linear -= alloc.bytes;
    }
  }
  const auto unclaimed = device.unclaimed.find(alloc.id);
  if (unclaimed == device.unclaimed.end()) return;
  device.unclaimed_bytes -= unclaimed->second;
  device.unclaimed.erase(unclaimed);
}

/// `bytes` more than what is in use.
void NeedWatch::refused(int32_t ordinal, uint64_t bytes) {
  if (ordinal < 0) return;
  Device& device = devices_[ordinal];
  look(ordinal, device);
  // A pool's own refusal comes last, and its request is what was needed: the driver had been asked
  // for a whole segment.
  device.sums.refused = device.in_use + device.last.least + bytes;
}

void NeedWatch::on_arena_failed(const ArenaFailedEvent& failed, uint32_t /*stack*/) {
  const auto& failures = replay().arenas().failures();
  if (!failures.empty()) refused(failures.back().device, failed.bytes);
}

void NeedWatch::look(int32_t ordinal, Device& device) {
  const ArenaTable& arenas = replay().arenas();
  for (auto block = device.unclaimed.begin(); block != device.unclaimed.end();) {
    if (arenas.shared_out().contains(block->first)) {
      device.unclaimed_bytes -= block->second;
      block = device.unclaimed.erase(block);
    } else {
      ++block;
    }
  }
  uint64_t idle = device.unclaimed_bytes;
  for (const ArenaTable::Arena& arena : arenas.arenas()) {
    if (arena.place != ordinal || arena.idle[1] == kNoGroup) continue;
    idle += arenas.peaks().group(arena.idle[1]).live_bytes;
  }
  uint64_t tracked = 0;
  for (const auto& [kind, bytes] : device.by_kind) tracked += bytes;
  const auto reserved = replay().device().pool_reserved().find(ordinal);
  const uint64_t in_pools = device.by_kind[GPUPEAK_KIND_POOL];
  const uint64_t of_pools =
      reserved != replay().device().pool_reserved().end() ? reserved->second.current : 0;
  device.held = tracked - device.by_kind[GPUPEAK_KIND_LINEAR] + device.pages.bytes() +
                (std::max(of_pools, in_pools) - in_pools);
  device.in_use = tracked - std::min(tracked, idle);
  const uint64_t outside = device.outside_pages.bytes();
  device.in_use += outside - std::min(outside, device.outside_linear);
  const uint64_t largest = sizes_.empty() ? 0 : *sizes_.rbegin();
  device.lean = device.in_use - std::min(device.in_use, largest);
  device.lean_since = std::max(device.lean_since, device.lean);
  device.held_since = std::max(device.held_since, device.held);
  device.in_use_since = std::max(device.in_use_since, device.in_use);
}

void NeedWatch::settle(Device& device, const Beyond& now) {
  Sums& sums = device.sums;
  sums.held = std::max(sums.held, device.held_since);
  sums.in_use = std::max(sums.in_use, device.in_use_since);
  sums.most = std::max(sums.most, device.held_since + std::max(device.last.most, now.most));
  const uint64_t beyond = std::min(device.last.least, now.least);
  sums.least = std::max(sums.least, device.in_use_since + beyond);
  sums.lean_in_use = std::max(sums.lean_in_use, device.lean_since);
  sums.lean_least = std::max(sums.lean_least, device.lean_since + beyond);
  device.held_since = device.held;
  device.in_use_since = device.in_use;
  device.lean_since = device.lean;
  device.uncertain_beyond = 0;
  device.last = now;
}

void NeedWatch::read(const Event& event) {
  const DriverReadingEvent reading = parse_driver_reading(event);
  const auto entry = replay().device().ledgers().find(reading.device);
  if (entry == replay().device().ledgers().end() || !entry->second.last()) return;
  const DeviceLedger& ledger = entry->second;
  Device& device = devices_[reading.device];
  look(reading.device, device);
  const LedgerSnapshot& now = *ledger.last();
  device.start = now.start;
  device.others_at_start = ledger.others_at_start();
  if (now.ticks != event.ticks) {
    // Of an uncertain reading it is known that no more was in use: what another thread's call has
    // taken is in it, and what one is about to give back.
    const auto used =
        static_cast<int64_t>(reading.used - std::min(reading.used, now.start.value_or(0)));
    const int64_t own = used - now.external;
    device.sums.most = std::max(device.sums.most, positive(own));
    device.uncertain_beyond =
        std::max(device.uncertain_beyond, positive(own - static_cast<int64_t>(device.held)));
    return;
  }
  const Beyond beyond = beyond_of(now);
  settle(device, beyond);
  Sums& sums = device.sums;
  if (!sums.beyond || beyond.most > sums.beyond->most) sums.beyond = beyond;
  sums.local_memory =
      std::max(sums.local_memory, positive(now.causes[GPUPEAK_LEDGER_LOCAL_MEMORY]));
  sums.unexplained = std::max(sums.unexplained,
                              positive(now.unexplained < 0 ? -now.unexplained : now.unexplained));
}

void NeedWatch::after(const Event& event) {
  switch (event.tag) {
    case GPUPEAK_REC_DRIVER_READING:
      read(event);
      return;
    case GPUPEAK_REC_DEVICE_FAILED: {
      const DeviceFailedEvent failed = parse_device_failed(event);
      const bool of_device = is_device_kind(failed.kind) && failed.kind != GPUPEAK_KIND_VMM_VA;
      if (of_device) refused(failed.device, failed.bytes);
      return;
    }
    case GPUPEAK_REC_DEVICE_ALLOC:
    case GPUPEAK_REC_DEVICE_FREE:
    case GPUPEAK_REC_DEVICE_REVIVE:
    case GPUPEAK_REC_POOL:
    case GPUPEAK_REC_ARENA:
    case GPUPEAK_REC_ARENA_ALLOC:
    case GPUPEAK_REC_ARENA_FREE:
      for (auto& [ordinal, device] : devices_) look(ordinal, device);
      return;
    default:
      return;
  }
}

std::map<int32_t, NeedWatch::Sums> NeedWatch::finish() {
  std::map<int32_t, Sums> all;
  for (auto& [ordinal, device] : devices_) {
    // Readings that were never followed by a certain one: the largest of them bounds the rest.
    const Beyond last{device.last.least, std::max(device.last.most, device.uncertain_beyond)};
    settle(device, last);
    Sums& sums = all[ordinal] = device.sums;
    sums.others_known = device.others_at_start.has_value();
    const uint64_t start = device.start ? own_start(*device.start, device.others_at_start) : 0;
    sums.most += start;
    if (sums.beyond) sums.beyond->most += start;
  }
  return all;
}

namespace {

/// Pools whose inside is not seen, or not in all releases: what of their memory is idle is not
/// known, and some take a share of whatever card they find.
struct Pool {
  std::string_view modules, name;
  bool may_be_seen = false;  ///< then it is one of the log's arenas
};
constexpr Pool kPools[] = {
    {"*xla_cuda_plugin*", "JAX"},
    {"*xla_extension*", "JAX"},
    {"*libtensorflow*", "TensorFlow"},
    {"*_pywrap_tensorflow*", "TensorFlow"},
    {"*/cupy/*", "CuPy"},
    {"*librmm*", "RMM"},
    {"*libonnxruntime_providers_cuda*", "ONNX Runtime", true},
    {"*libc10_cuda*", "PyTorch", true},
};

void say_once(std::vector<std::string>& texts, std::string text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
}

/// What makes the bounds of a process no bounds.
class Trust {
 public:
  Trust(const Profile& profile, const Summary& summary, bool is_part)
      : profile_(profile), summary_(summary) {
    losses(is_part);
    if (!is_part) end();
    refusals();
    pools();
  }
  std::vector<std::string> no_most, no_least, notes;
  /// Libraries that try for a workspace, and go on with a smaller one, are part of it.
  bool has_workspaces = false;

 private:
  /// Whether the replay arrives at the same peaks of devices as the preload's own counters.
  bool peaks_are_the_counters() const {
    const gpupeak_counters_page& page = profile_.log().counters();
    if (page.ended == 0) return false;
    const uint32_t devices = std::min<uint32_t>(page.device_count, GPUPEAK_LOG_MAX_DEVICES);
    for (uint32_t i = 0; i < devices; ++i) {
      const Replay& replay = profile_.replay();
      const ScopeId* scope = replay.sites().find_scope("device:" + std::to_string(i));
      const uint64_t replayed = scope != nullptr ? replay.peaks().scope(*scope).peak : 0;
      if (replayed != page.device[i].total.peak) return false;
    }
    return true;
  }

  void losses(bool is_part) {
    for (const Warning& warning : summary_.quality.warnings) {
      const std::string& code = warning.code;
      const std::string text = code + ": " + warning.message;
      const auto is = [&](std::initializer_list<std::string_view> codes) {
        return std::find(codes.begin(), codes.end(), code) != codes.end();
      };
      const bool heap_alone = code == "GP028" && peaks_are_the_counters();
      if (is({"GP001", "GP003", "GP004", "GP005", "GP007", "GP008", "GP028", "GP030"}) &&
          !heap_alone) {
        no_most.push_back(text);
        no_least.push_back(text);
      } else if (is({"GP006", "GP027", "GP032"}) || (code == "GP002" && !is_part)) {
        no_most.push_back(text);
      } else if (is({"GP045", "GP046", "GP047", "GP049"})) {
        no_least.push_back(text);
      }
    }
  }

  void end() {
    const RunEnd& end = summary_.run.end;
    if (end.kind == ExitKind::kSignal) {
      no_most.push_back(fmt::format(
          "signal {} ended the program: what it would have needed after that is not known",
          end.code));
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
    const auto of_device =
        std::count_if(summary_.oom.begin(), summary_.oom.end(),
                      [](const OutOfMemory& oom) { return !oom.on_host && !oom.only_addresses; });
    if (of_device == 0) return;
    no_most.push_back(fmt::format(
        "{} for device memory {} refused: with more memory the program would have taken more",
        of_device == 1 ? "a request" : "requests", of_device == 1 ? "was" : "were"));
  }

  void pools() {
    const auto& arenas = summary_.arenas;
    const bool any_seen = std::any_of(arenas.begin(), arenas.end(), [](const ArenaSummary& arena) {
      return arena.device.has_value();
    });
    for (const Module& module : profile_.definitions().modules()) {
      // Loaded when the first convolution is planned.
      has_workspaces |= glob_match("*libcudnn_engines*", module.path) ||
                        glob_match("*libcudnn_cnn*", module.path);
      for (const Pool& pool : kPools) {
        if (!glob_match(pool.modules, module.path) || (pool.may_be_seen && any_seen)) continue;
        say_once(no_least, fmt::format("{}'s pool was not seen inside: how much of it is idle, and "
                                       "whether it would take less of a smaller card, is not known",
                                       pool.name));
      }
    }
  }

  const Profile& profile_;
  const Summary& summary_;
};

DeviceNeed need_of(const NeedWatch::Sums& sums, const DeviceSummary& device, const Trust& trust,
                   bool in_order) {
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
      need.notes.push_back(fmt::format(
          "up to {} of what the driver had in use is explained by nothing that was seen: counted "
          "as needed, other processes' or not",
          size_text(sums.unexplained)));
    }
    if (!sums.others_known) {
      need.notes.push_back(
          "the driver does not tell other processes' memory apart here: if they took or gave back "
          "memory meanwhile, the figures are off by that");
    }
  } else {
    need.no_most.push_back(
        "the driver was not asked what it has in use (GPUPEAK_LEDGER=off, or no NVML): what "
        "contexts and code take is not known");
  }
  if (device.is_integrated()) {
    need.no_most.push_back(
        "the card's memory is the host's: what the program needs of it as host memory is no part "
        "of these figures");
  }
  if (need.no_least.empty()) {
    need.in_use_bytes = trust.has_workspaces ? sums.lean_in_use : sums.in_use;
    need.least_bytes = trust.has_workspaces ? sums.lean_least : sums.least;
    if (trust.has_workspaces) {
      need.notes.push_back(
          "cuDNN plans convolutions by the room there is: \"at least\" is without the largest "
          "block "
          "in use at each instant, which may be its workspace");
    }
    if (!in_order) need.refused_bytes = sums.refused;
  }
  if (need.no_most.empty()) {
    // NVML's own figure for the process is a second account.
    const auto own = metric(device.metrics, "device.nvml_process.peak_bytes");
    need.most_bytes = std::max(sums.most, own.value_or(0));
  }
  return need;
}

LogNeeds needs_of_program(const std::string& path, const Options& options, const Progress& progress,
                          bool is_part, size_t* parts) {
  LogNeeds found;
  auto watch = std::make_unique<NeedWatch>();
  Profile profile(path, progress, watch.get(), options.reading);
  const auto& shared_out = profile.replay().arenas().shared_out();
  if (!shared_out.empty()) {
    watch = std::make_unique<NeedWatch>(shared_out);
    profile.replay_again(*watch, progress);
  }
  const std::map<int32_t, NeedWatch::Sums> sums = watch->finish();
  found.summary = summarize(profile, options);
  const Trust trust(profile, found.summary, is_part);
  for (const DeviceSummary& device : found.summary.devices) {
    const auto entry = sums.find(device.ordinal);
    if (entry == sums.end()) continue;
    found.devices.push_back(
        need_of(entry->second, device, trust, found.summary.run.end.in_order()));
  }
  if (parts != nullptr) *parts = profile.log().parts().size();
  return found;
}

bool is_same_device(const DeviceNeed& a, const DeviceNeed& b) {
  return a.uuid.empty() || b.uuid.empty() ? a.device == b.device : a.uuid == b.uuid;
}

}  // namespace

LogNeeds needs_of(const std::string& path, const Options& options, const Progress& progress) {
  size_t parts = 0;
  LogNeeds all = needs_of_program(path, options, progress, false, &parts);
  for (size_t part = 1; part <= parts; ++part) {
    const LogNeeds other =
        needs_of_program(path + "#" + std::to_string(part), options, progress, true, nullptr);
    for (const DeviceNeed& need : other.devices) {
      const auto same = std::find_if(all.devices.begin(), all.devices.end(),
                                     [&](const auto& of) { return is_same_device(of, need); });
      if (same == all.devices.end()) {
        all.devices.push_back(need);
      } else {
        *same = in_turn({*same, need});
      }
    }
  }
  return all;
}

}  // namespace gpupeak::collector
