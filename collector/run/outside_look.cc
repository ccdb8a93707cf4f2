#include "collector/run/outside_look.h"

#include <algorithm>
#include <string>

namespace gpupeak::collector {
namespace {

/// Applies also to what the process saw itself: only from outside is it known which pages are
/// shared.
void name_inherited(const RunRecord::Resident& seen, Metrics& metrics) {
  const auto unexplained = metric(metrics, "host.resident.unexplained_bytes");
  if (!unexplained) return;
  const uint64_t inherited = std::min(*unexplained, seen.shared_anonymous_bytes);
  metrics["host.resident.inherited_bytes"] = inherited;
  metrics["host.resident.unexplained_bytes"] = *unexplained - inherited;
}

/// The most that is the process's own: by the look that leaves less of the kernel's maximum to
/// guess.
void note_own_memory(const RunRecord::Resident& seen, Metrics& metrics) {
  const uint64_t beside = seen.files_bytes + seen.log_bytes + seen.own_bytes;
  const uint64_t own = seen.rss_bytes - std::min(seen.rss_bytes, beside);
  const uint64_t rss = std::max(metric(metrics, "host.rss.peak_bytes").value_or(0), seen.rss_bytes);
  auto& most_seen = metrics["host.memory.seen_bytes"];
  auto& peak = metrics["host.memory.peak_bytes"];
  most_seen = std::max(most_seen.value_or(0), own);
  const uint64_t estimate = rss - std::min(rss, beside);
  peak = std::max(*most_seen, std::min(peak.value_or(UINT64_MAX), estimate));
}

/// `forked`: the process still runs its parent's program, so pages that it shares are its parent's.
void add_look(const RunRecord::Resident& seen, bool forked, Metrics& metrics) {
  const auto known = [&](const char* name) { return metric(metrics, name); };
  note_own_memory(seen, metrics);
  if (known("host.resident.total_bytes").value_or(0) >= seen.rss_bytes) {
    if (forked) name_inherited(seen, metrics);
    return;
  }
  const auto heap_in_use = seen.heap_bytes;
  const auto mapped_at_most = known("host.kind.mmap_anon.peak_bytes");
  const bool heap_known =
      heap_in_use && mapped_at_most && known("host.kind.heap.usable_peak_bytes");
  // The kernel does not say to whom anonymous memory belongs. It counts as kept by malloc only
  // where malloc puts its blocks. What another process shares was there before the fork.
  uint64_t left = seen.malloc_bytes + seen.anonymous_bytes;
  const auto take = [&left](uint64_t wanted) {
    const uint64_t taken = std::min(left, wanted);
    left -= taken;
    return taken;
  };
  const uint64_t static_data = take(seen.static_data_bytes);
  const uint64_t own = take(seen.own_bytes), heap = take(heap_in_use.value_or(0));
  const uint64_t others_brk = std::min(seen.others_brk_bytes, seen.malloc_bytes);
  const uint64_t mappings =
      take(std::min(mapped_at_most.value_or(0), seen.anonymous_bytes - static_data + others_brk));
  const uint64_t inherited = forked ? take(seen.shared_anonymous_bytes) : 0;
  const uint64_t kept = take(seen.malloc_bytes - others_brk);
  const auto say = [&](const char* name, bool is_known, uint64_t bytes) {
    metrics[std::string("host.resident.") + name] = is_known ? std::optional(bytes) : std::nullopt;
  };
  say("total_bytes", true, seen.rss_bytes);
  say("heap_bytes", heap_known, heap);
  say("kept_by_malloc_bytes", heap_known, kept);
  say("mappings_bytes", heap_known, mappings);
  say("thread_stacks_bytes", true, seen.stacks_bytes);
  say("files_bytes", true, seen.files_bytes);
  say("static_data_bytes", true, static_data);
  say("written_files_bytes", true, seen.written_bytes);
  say("shared_memory_bytes", true, seen.shared_bytes);
  say("driver_bytes", true, seen.driver_bytes);
  say("gpupeak_bytes", true, seen.log_bytes + own);
  if (forked) say("inherited_bytes", heap_known, inherited);
  say("unexplained_bytes", heap_known, left);
}

}  // namespace

void add_outside_look(const RunLogs& run, const RunLog& log, Metrics& metrics) {
  const gpupeak_file_header& header = log.head.header;
  for (const RunRecord::Resident& seen : run.resident) {
    if (seen.pid == header.pid) add_look(seen, (header.flags & GPUPEAK_FLAG_FORKED) != 0, metrics);
  }
}

uint64_t seen_resident_bytes(const RunLogs& run, uint32_t pid) {
  uint64_t bytes = 0;
  for (const RunRecord::Resident& seen : run.resident)
    if (seen.pid == pid) bytes = std::max(bytes, seen.rss_bytes);
  return bytes;
}

}  // namespace gpupeak::collector
