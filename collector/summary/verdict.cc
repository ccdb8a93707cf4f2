#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "collector/summary/failure_cause.h"
#include "collector/summary/failure_text.h"
#include "collector/summary/judge.h"
#include "collector/summary/run_text.h"
#include "collector/summary/whole_run_text.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxProcesses = 8;

}  // namespace

Verdict Judge::judge() {
  find_device();
  not_seen();
  losses();
  run_limits();
  failures();
  peaks();
  bar();
  hints();
  probes();
  steps();
  facts();
  return std::move(verdict_);
}

void Judge::say(std::string text, bool alarming) {
  verdict_.sentences.push_back({std::move(text), alarming});
}

void Judge::find_device() {
  uint64_t largest = 0;
  verdict_.device = nullptr;
  for (const DeviceSummary& device : summary_.devices) {
    if (!was_used(device)) continue;
    ++used_devices_;
    const uint64_t peak = metric(device.metrics, "device.peak_bytes").value_or(0);
    if (verdict_.device != nullptr && peak <= largest) continue;
    verdict_.device = &device;
    largest = peak;
  }
  peak_ = summary_.find_peak(
      (verdict_.device == nullptr ? ScopeKey::host() : ScopeKey::device(verdict_.device->ordinal))
          .text());
}

void Judge::not_seen() {
  for (const Warning& warning : summary_.quality.warnings) {
    if (warning.code == WarningCode::kAttached) say(warning.message, true);
  }
  growth_since();
  if (!summary_.whole_run) return;
  const WholeRun& run = *summary_.whole_run;
  if (std::string text = memory_kill_text(run, style_); !text.empty()) say(std::move(text), true);
  for (std::string& text : missing_from(run, style_)) say(std::move(text), true);
  verdict_.rows = process_rows(run, kMaxProcesses, style_);
}

/// Says what has grown since an attach, or within the windows in which the heap was recorded.
void Judge::growth_since() {
  const std::optional<uint64_t> device = metric(summary_.metrics, "device.growth_bytes"),
                                most = metric(summary_.metrics, "device.growth_peak_bytes"),
                                heap = metric(summary_.metrics, "host.kind.heap.growth_bytes");
  std::string text;
  if (device && !summary_.devices.empty()) {
    text = size(*device) + " of GPU memory";
    if (most && *most != *device) text += fmt::format(" ({} at most)", size(*most));
  }
  if (heap) text += (text.empty() ? "" : " and ") + size(*heap) + " of heap";
  if (!text.empty()) say("grown while it was recorded: " + text);
}

void Judge::losses() {
  const Quality& quality = summary_.quality;
  std::string text = losses_text(quality);
  if (quality.exact && quality.log_end == LogEnd::kKilled) text = exit_text(summary_.run.end);
  if (quality.only_heap_inexact && quality.dropped_events == 0) {
    const bool at_limit = std::ranges::any_of(quality.warnings, [](const Warning& warning) {
      return warning.code == WarningCode::kLogLimitReached;
    });
    if (at_limit) text += " since the log reached its limit";
    text += ": those of GPUs and mappings are";
  } else if (!quality.exact) {
    text += ": the figures are what was seen";
    for (const Warning& warning : quality.warnings) {
      if (warning.code == WarningCode::kLogCouldNotGrow && !warning.about.empty())
        text += ", peaks of GPUs and of the heap at least so much; " + warning.message;
    }
  }
  const bool is_said = quality.exact && quality.log_end == LogEnd::kRunning && summary_.whole_run &&
                       !summary_.whole_run->still_running.empty();
  if (!is_said && (!quality.exact || !quality.log_complete)) say(std::move(text), true);
}

void Judge::run_limits() {
  for (const DeviceSummary& device : summary_.devices) {
    if (!device.limit || (&device != verdict_.device && !was_used(device))) continue;
    const CardLimit& limit = *device.limit;
    say(fmt::format("run as on {}: {} has {}",
                    limit.card.empty() ? fmt::format("a card of {}", size(limit.bytes))
                                       : fmt::format("{} of {}", limit.card, size(limit.bytes)),
                    device_text(device), size(limit.real_bytes)));
  }
}

const DeviceSummary* Judge::device(std::optional<int32_t> ordinal) const {
  for (const DeviceSummary& device : summary_.devices) {
    if (ordinal && device.ordinal == *ordinal) return &device;
  }
  return nullptr;
}

bool Judge::was_a_probe(const FailureGroup& group) const {
  return ended_well() && (!is_of_memory(group) || group.last->result == kNoHostMemory);
}

std::vector<FailureGroup> Judge::failure_groups(bool probes) const {
  std::vector<FailureGroup> groups = fold_failures(summary_);
  std::erase_if(groups, [&](const FailureGroup& group) { return was_a_probe(group) != probes; });
  return groups;
}

void Judge::failures() {
  const std::vector<FailureGroup> groups = failure_groups(false);
  if (groups.empty()) return;
  // The last one is the failure that the program could not live with.
  const FailureGroup& group = groups.back();
  const OutOfMemory& oom = *group.last;
  const DeviceSummary* where = device(oom.device);
  const bool of_memory = is_of_memory(group);
  std::string text = !ended_well() && of_memory ? "OUT OF MEMORY" : "an allocation failed";
  if (where != nullptr) text += " on " + device_text(*where);
  if (oom.result == kNoHostMemory) text += " on the host";
  if (ended_well()) text += " and the program went on";
  text += oom.for_driver ? ": for the driver's own use by " + oom.api
                         : fmt::format(": {} asked", size(oom.requested_bytes));
  if (oom.result == kNoHostMemory) text += " by " + oom.api;
  if (oom.refused_by) text += " of " + oom.refused_by->name;
  if (oom.driver_free_bytes) text += fmt::format(", {} free", size(oom.driver_free_bytes));
  text += fmt::format(", {} held", size(oom.live_bytes));
  if (!of_memory) text += fmt::format(" ({}: {})", oom.api, oom.result);
  if (group.count > 1) text += fmt::format(", {} times", grouped(group.count));
  if (groups.size() > 1) text += fmt::format("; {} other failures", grouped(groups.size() - 1));
  say(std::move(text), true);
  if (!of_memory) return;
  say("why: " + why_text(oom, style_));
  // The first screen does not say what everybody knows.
  const bool plain =
      !oom.causes.empty() && (oom.causes.front().cause == FailureCause::kFull ||
                              oom.causes.front().cause == FailureCause::kLargerThanCard);
  if (plain) return;
  if (const std::string help = help_text(oom, style_); !help.empty()) say("try: " + help);
}

void Judge::probes() {
  const std::vector<FailureGroup> groups = failure_groups(true);
  if (groups.empty()) return;
  const OutOfMemory& last = *groups.back().last;
  uint64_t count = 0;
  for (const FailureGroup& group : groups) count += group.count;
  verdict_.hints.push_back(fmt::format(
      "{} allocation{} refused{}, and the program went on ({}: {})", grouped(count),
      count == 1 ? " was" : "s were", is_of_memory(groups.back()) ? "" : ", not for want of memory",
      last.api, last.result));
}

void Judge::step(std::string_view verb, std::string why) {
  verdict_.next.push_back(
      {fmt::format("gpupeak {} {}", verb, quoted(summary_.log_path)), std::move(why)});
}

void Judge::steps() {
  const auto is_layer = [](const PhaseSummary& phase) {
    const bool names_layers =
        phase.source == "api" || phase.source == "nvtx" || phase.source == "node";
    return names_layers && !phase.of_library;
  };
  const bool has_layers = std::ranges::any_of(summary_.phases, is_layer);
  if (peak_ != nullptr && peak_->tags.size() > 1)
    step("tags", has_layers ? "by layer" : "by what it is for");
  const bool has_phases = std::ranges::any_of(summary_.phases, [](const PhaseSummary& phase) {
    return phase.source != "auto" && !phase.of_library;
  });
  if (verdict_.next.empty() && has_phases) step("phases", "what each phase kept");
  step("report --html page.html", "a page to look around in");
  verdict_.next.back().page = true;
}

void Judge::facts() {
  std::string& text = verdict_.facts;
  const auto& run = summary_.whole_run;
  if (run && run->has_several()) text = process_text(run->processes[run->lead]) + ": ";
  text += duration(summary_.run.duration_ns);
  const std::string exit = exit_text(summary_.run.end);
  if (!exit.empty()) text += " · " + exit;
  text += fmt::format(" · {} · log {}", events_text(summary_.quality), size(summary_.log_bytes));
  if (is_complete(summary_))
    text += " · ✓ complete";
  else if (summary_.quality.exact && summary_.quality.log_complete)
    text += " · no record lost";
  if (const uint64_t bytes = unexplained_resident_bytes(summary_); bytes > 0)
    text += fmt::format(" · {} resident without a known cause", size(bytes));
  if (summary_.quality.heap_sample_bytes > 0)
    text += fmt::format(" · small heap blocks: a sample of one in {}",
                        size(summary_.quality.heap_sample_bytes));
  const std::vector<Warning>& warnings = summary_.quality.warnings;
  if (warnings.empty()) return;
  verdict_.warnings =
      fmt::format("{} warning{}:", warnings.size(), warnings.size() == 1 ? "" : "s");
  std::set<WarningCode> said;
  for (const Warning& warning : warnings) {
    if (said.insert(warning.code).second) verdict_.warnings += " " + code_text(warning.code);
  }
}

std::string quoted(const std::string& path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=@%+";
  if (!path.empty() && path.find_first_not_of(kPlain) == std::string::npos) return path;
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<FailureGroup> fold_failures(const Summary& summary) {
  std::vector<FailureGroup> groups;
  for (const OutOfMemory& oom : summary.oom) {
    if (oom.told_by_arena) continue;
    const auto alike = [&](const FailureGroup& group) {
      const OutOfMemory& other = *group.last;
      const bool same_arena = oom.refused_by.has_value() == other.refused_by.has_value();
      return same_arena && oom.device == other.device &&
             oom.requested_bytes == other.requested_bytes && oom.result == other.result &&
             oom.phase == other.phase && oom.title == other.title;
    };
    const auto known = std::ranges::find_if(groups, alike);
    uint64_t count = 1;
    if (known != groups.end()) {
      count += known->count;
      groups.erase(known);  // the order is that of the last failures
    }
    groups.push_back({&oom, count});
  }
  // The last group is told first: failures for want of memory come before senseless requests.
  std::stable_partition(groups.begin(), groups.end(),
                        [](const FailureGroup& group) { return !found_no_memory(*group.last); });
  return groups;
}

Verdict verdict_of(const Summary& summary, const TextStyle& style) {
  return Judge(summary, style).judge();
}

}  // namespace gpupeak::collector
