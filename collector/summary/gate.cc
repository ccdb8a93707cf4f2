#include "collector/summary/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/lists.h"
#include "collector/text/name_match.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxReasons = 5;
constexpr std::string_view kDevice = "device:";
constexpr std::string_view kPhase = "phase:";

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr double kThousand = 1000, kKibi = 1024;
constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"kB", kThousand},
    {"KB", kThousand},
    {"MB", kThousand* kThousand},
    {"GB", kThousand* kThousand* kThousand},
    {"TB", kThousand* kThousand* kThousand* kThousand},
    {"KiB", kKibi},
    {"MiB", kKibi* kKibi},
    {"GiB", kKibi* kKibi* kKibi},
    {"TiB", kKibi* kKibi* kKibi* kKibi},
};

/// The number at the front; `rest` is what follows, without spaces before it.
std::optional<double> leading_number(std::string_view text, std::string_view& rest) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  rest = text.substr(static_cast<size_t>(end - text.data()));
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return value;
}

Gate parse(const std::string& text, const char* option, const Sanitizer& sanitizer,
           std::string& limit) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError("{} {}: give METRIC=LIMIT, for instance device.peak_bytes=8GiB", option,
                     escape(text));
  }
  Gate gate;
  gate.text = sanitizer.text(text);
  gate.shown = sanitizer.text(text.substr(0, equals));
  limit = text.substr(equals + 1);
  gate.metric = text.substr(0, equals);
  const size_t at = gate.metric.find('@');
  if (at != std::string::npos) {
    gate.where = gate.metric.substr(at + 1);
    gate.metric.resize(at);
    if (!gate.where.starts_with(kDevice) && !gate.where.starts_with(kPhase)) {
      throw UsageError("{} {}: behind @ stands device:N or phase:NAME", option, escape(text));
    }
  }
  return gate;
}

bool is_count(const Gate& gate) {
  return gate.metric.ends_with("_count");
}

std::string figure(const Gate& gate, const std::optional<uint64_t>& value) {
  if (!value) return "not measured";
  if (is_count(gate)) return grouped(*value);
  return fmt::format("{} ({} bytes)", size_text(*value), grouped(*value));
}

/// The devices or the phases that the summary has, whichever is meant, by their names.
std::vector<std::pair<std::string, const Metrics*>> places_of(const Summary& summary,
                                                              const std::string& where) {
  const auto device = [](const DeviceSummary& of) {
    return std::pair(ScopeKey::device(of.ordinal).text(), &of.metrics);
  };
  const auto phase = [](const PhaseSummary& of) {
    return std::pair(fmt::format("{}{}", kPhase, of.name), &of.metrics);
  };
  return where.starts_with(kDevice) ? list_of(summary.devices, device)
                                    : list_of(summary.phases, phase);
}

/// The metrics in which a gate's figure is: several if phases have the same name, none if there is
/// no such device or phase.
std::vector<const Metrics*> metrics_of(const Summary& summary, const std::string& where) {
  if (where.empty()) return {&summary.metrics};
  auto places = places_of(summary, where);
  std::erase_if(places, [&](const auto& place) { return place.first != where; });
  return values_of(std::move(places));
}

/// The largest of the measured ones.
std::optional<uint64_t> largest(const std::vector<const Metrics*>& places,
                                const std::string& name) {
  std::optional<uint64_t> value;
  for (const Metrics* metrics : places) value = std::max(value, metric(*metrics, name));
  return value;
}

std::optional<uint64_t> figure_of(const Gate& gate, const Summary& summary) {
  const std::vector<const Metrics*> places = metrics_of(summary, gate.where);
  if (places.empty()) {
    throw UsageError("{}: {} has no {}{}", gate.text, summary.log_path, escape(gate.where),
                     did_you_mean(gate.where, keys_of(places_of(summary, gate.where))));
  }
  if (!places.front()->contains(gate.metric)) {
    throw UsageError("{}: there is no such metric{}", gate.text,
                     did_you_mean(gate.metric, keys_of(*places.front())));
  }
  return largest(places, gate.metric);
}

/// The most that the host's sum can have been, by exact counters of usable bytes and of each other
/// kind. None: they were not kept.
std::optional<uint64_t> host_bound(const Summary& summary) {
  uint64_t sum = 0;
  for (const char* name : {"host.kind.heap.usable_peak_bytes", "host.kind.mmap_anon.peak_bytes",
                           "host.kind.pinned.peak_bytes", "host.kind.vmm.peak_bytes"}) {
    const auto bytes = metric(summary.metrics, name);
    if (!bytes) return std::nullopt;
    sum += *bytes;
  }
  return sum;
}

/// A sample's estimate holds today and breaks tomorrow, so where there are exact counters they
/// stand for it, on both sides. Returns what they count; empty: the figures stay.
std::string use_exact_counters(GateResult& result, const Summary& summary,
                               const Summary* baseline) {
  const Gate& gate = result.gate;
  if (gate.metric != "host.peak_bytes" || !gate.where.empty()) return "";
  const bool is_estimate =
      error_of(summary, gate.metric) || (gate.increase && error_of(*baseline, gate.metric));
  const auto bound = host_bound(summary);
  const auto before = gate.increase ? host_bound(*baseline) : std::nullopt;
  if (!is_estimate || !bound || (gate.increase && !before)) return "";
  result.value = bound;
  result.baseline = before;
  result.error_bytes.reset();
  return ", in usable bytes by exact counters";
}

std::string scope_of(const Gate& gate, const Summary& summary) {
  const std::string scope = scope_of_metric(summary, gate.metric);
  if (!gate.where.starts_with(kDevice)) return scope;
  const size_t slash = std::min(scope.find('/'), scope.size());
  return gate.where + scope.substr(slash);
}

std::string holder_text(const Holder& holder, const TextStyle& style) {
  return fmt::format("{}  {}  [{}]", size_text(holder.bytes, style), holder.title, holder.kind);
}

std::vector<std::string> reasons(const Gate& gate, const Summary& summary, const Summary* baseline,
                                 const TextStyle& style) {
  std::vector<std::string> lines;
  if (gate.metric.ends_with(".step_growth_bytes")) {
    for (const GrowthSummary& growth : summary.growth) {
      if (lines.size() < kMaxReasons && gate.metric.starts_with(growth.side))
        lines.push_back(growth_text(growth, style));
    }
    return lines;
  }
  if (gate.where.starts_with(kPhase)) {
    for (const PhaseSummary& phase : summary.phases) {
      if (gate.where != fmt::format("{}{}", kPhase, phase.name)) continue;
      const auto& site = gate.metric.starts_with("device") ? phase.biggest_new_device_site
                                                           : phase.biggest_new_host_site;
      if (site) lines.push_back("biggest new site: " + holder_text(*site, style));
      break;
    }
    return lines;
  }
  const std::string scope = scope_of(gate, summary);
  if (baseline != nullptr) {
    const PeakDiff peak = diff_peak(*baseline, summary, scope);
    if (std::string text = nameless_text(peak); !text.empty())
      lines.push_back("of A, the baseline, and B: " + text);
    for (const SiteDiff& site : peak.sites) {
      if (lines.size() < kMaxReasons && site.grew()) lines.push_back(change_text(site, style));
    }
  } else if (const Peak* peak = summary.find_peak(scope)) {
    for (const Holder& holder : first_of(peak->holders, kMaxReasons))
      lines.push_back(holder_text(holder, style));
  }
  return lines;
}

/// For a run of several processes: which of them a figure is of.
std::string whose(const Gate& gate, const Summary& summary, const std::optional<uint64_t>& value) {
  if (!summary.whole_run || !summary.whole_run->has_several() || !value || is_count(gate))
    return "";
  const WholeRun& run = *summary.whole_run;
  if (gate.metric == "device.peak_bytes" || gate.metric == "host.peak_bytes")
    return fmt::format(" ({} processes at once)", grouped(run.processes.size()));
  for (const WholeRun::Process& process : run.processes) {
    if (metric(process.metrics, gate.metric) == value)
      return fmt::format(" ({}, the most of {} processes)", process_text(process),
                         grouped(run.processes.size()));
  }
  return "";
}

/// Which process lacks the host's sum, and what tells of all; empty: not known.
std::string why_not_measured(const Gate& gate, const Summary& summary) {
  if (gate.metric != "host.peak_bytes" || !gate.where.empty() || !summary.whole_run) return "";
  std::string text;
  for (const WholeRun::Process& process : summary.whole_run->processes) {
    if (process.host_peak_bytes) continue;
    text = fmt::format(": {} was not recorded from its start (run --children all does it)",
                       process_text(process));
    break;
  }
  if (const auto memory = metric(summary.metrics, "host.memory.peak_bytes"))
    text += fmt::format("; host.memory.peak_bytes, what was resident, is {}", size_text(*memory));
  return text;
}

/// Why a figure is, or may be, less than what the run took; empty: nothing is known to be missing.
std::string why_incomplete(const Gate& gate, const Summary& summary) {
  if (!summary.whole_run || !gate.metric.starts_with("device.") || is_count(gate) ||
      !lacks_device_memory(*summary.whole_run))
    return "";
  const std::vector<std::string> missing = missing_from(*summary.whole_run, {});
  return missing.empty() ? "not every process of the run was recorded" : missing.front();
}

/// Whether the figure is right although events are missing: the library counts it beside the log,
/// or the kernel does.
bool holds_without_events(const Gate& gate, const Summary& summary) {
  if (gate.metric == "host.rss.peak_bytes") return true;
  if (gate.where.starts_with(kPhase) || !gate.metric.ends_with(".peak_bytes")) return false;
  const bool several = summary.whole_run && summary.whole_run->has_several();
  if (gate.metric.starts_with("host.kind.heap.")) return true;
  const bool is_device =
      gate.metric == "device.peak_bytes" || gate.metric.starts_with("device.kind.") ||
      gate.metric.starts_with("device.managed.") || gate.metric.starts_with("device.imported.");
  // Only events tell what several processes held at the same instant.
  return is_device && !several && (!gate.where.empty() || summary.devices.size() == 1);
}

/// For an attached program: why the figure may be too low, since the program held memory before.
std::string why_before(const Gate& gate, const Summary& summary) {
  const bool attached = summary.quality.warns_of(WarningCode::kAttached);
  if (!attached || is_count(gate) || gate.metric.find("growth") != std::string::npos) return "";
  for (const std::string_view read_whole :
       {"host.rss.", "host.pss.", "host.resident.", "tool.", "device.driver_",
        "device.nvml_process.", "device.external_"}) {
    if (gate.metric.starts_with(read_whole)) return "";
  }
  return fmt::format(
      "the program was attached to, and what it held before is not in it ({} is what came since)",
      gate.metric.starts_with("device.") ? "device.growth_peak_bytes"
                                         : "host.kind.heap.growth_bytes");
}

std::string why_lost(const Gate& gate, const Summary& summary, const char* whose) {
  if (!summary.quality.events_lost || holds_without_events(gate, summary)) return "";
  return fmt::format("events are missing from {}, so that it may have been more: {}", whose,
                     losses_text(summary.quality));
}

/// " ± 0.4 %, by a sample"; empty: the figure is exact.
std::string error_text(const GateResult& result) {
  if (!result.error_bytes) return "";
  return fmt::format(
      " {}, by {}", error_percent(*result.error_bytes, *result.value),
      result.gate.metric == "host.memory.peak_bytes" ? "looks now and then" : "a sample");
}

/// Whether the figure's own error is more than what the limit leaves. Then nothing is known.
bool is_within_error(const GateResult& result) {
  if (!result.error_bytes) return false;
  // Looks give a most and a least, a sample what is as likely above as below.
  const bool is_most = result.gate.metric == "host.memory.peak_bytes";
  const uint64_t low = *result.value - std::min(*result.value, *result.error_bytes);
  const uint64_t high = *result.value + (is_most ? 0 : *result.error_bytes);
  return low <= *result.allowed && high > *result.allowed;
}

constexpr std::string_view kWithinError =
    "not to be told from the limit, since its error is wider than what the limit leaves:";

void judge_max(GateResult& result) {
  const Gate& gate = result.gate;
  result.allowed = gate.limit;
  if (!result.value) {
    result.message = fmt::format("{} was not measured, so {} cannot be kept", gate.shown,
                                 figure(gate, gate.limit));
    return;
  }
  const bool is_open = is_within_error(result);
  result.passed = !is_open && *result.value <= gate.limit;
  result.message =
      fmt::format("{} is {}{}, {} {}", gate.shown, figure(gate, result.value), error_text(result),
                  is_open         ? kWithinError
                  : result.passed ? "within the limit of"
                                  : "over the limit of",
                  figure(gate, gate.limit));
}

void judge_increase(GateResult& result) {
  const Gate& gate = result.gate;
  if (!result.value || !result.baseline) {
    result.message =
        fmt::format("{} was not measured in {}, so nothing is known of its increase", gate.shown,
                    result.value      ? "the baseline"
                    : result.baseline ? "this run"
                                      : "either run");
    return;
  }
  const uint64_t base = *result.baseline;
  const uint64_t room =
      gate.percent ? static_cast<uint64_t>(std::min(
                         std::floor(static_cast<long double>(base) * *gate.percent / 100), 0x1p63L))
                   : gate.limit;
  result.allowed = base > UINT64_MAX - room ? UINT64_MAX : base + room;
  const bool is_open = is_within_error(result);
  result.passed = !is_open && *result.value <= *result.allowed;
  const std::string relative = change_percent(base, *result.value);
  result.message =
      fmt::format("{} went from {} to {}{}{}, {} {}", gate.shown, figure(gate, base),
                  figure(gate, result.value), error_text(result),
                  relative.empty() ? "" : fmt::format(", {}", relative),
                  is_open         ? kWithinError
                  : result.passed ? "within the allowed"
                                  : "more than the allowed",
                  gate.percent ? fmt::format("{} %", *gate.percent) : figure(gate, gate.limit));
}

}  // namespace

uint64_t parse_size(const std::string& text) {
  std::string_view rest;
  const std::optional<double> number = leading_number(text, rest);
  const auto* unit = std::ranges::find_if(kUnits, [&](const Unit& u) { return u.name == rest; });
  if (!number || unit == std::end(kUnits)) {
    throw UsageError(
        "'{}' is no size: give bytes, or a number with kB, MB, GB, TB (thousands) or KiB, MiB, "
        "GiB, TiB (1024s)",
        escape(text));
  }
  uint64_t whole = 0;  // the exact value, if there is no fraction
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  const bool fraction = error != std::errc() || *end == '.';
  const double bytes = *number * unit->bytes;
  if (bytes >= 0x1p63) throw UsageError("'{}' is too large a size", escape(text));
  return fraction ? static_cast<uint64_t>(bytes) : whole * static_cast<uint64_t>(unit->bytes);
}

Gate parse_max(const std::string& text, const Sanitizer& sanitizer) {
  std::string limit;
  Gate gate = parse(text, "--max", sanitizer, limit);
  if (limit.ends_with('%')) {
    throw UsageError(
        "--max {}: a percentage is of an earlier run: --baseline FILE --max-increase {}",
        escape(text), escape(text));
  }
  gate.limit = parse_size(limit);
  return gate;
}

Gate parse_max_increase(const std::string& text, const Sanitizer& sanitizer) {
  std::string limit;
  Gate gate = parse(text, "--max-increase", sanitizer, limit);
  gate.increase = true;
  std::string_view rest;
  const std::optional<double> number = leading_number(limit, rest);
  if (number && rest == "%") {
    gate.percent = *number;
  } else {
    gate.limit = parse_size(limit);
    constexpr uint64_t kNobodyMeans = 1000;
    if (number && rest.empty() && gate.limit > 0 && gate.limit < kNobodyMeans && !is_count(gate))
      throw UsageError("--max-increase {}: {} bytes, or per cent? Write {}B or {}%", escape(text),
                       limit, limit, limit);
  }
  return gate;
}

std::vector<GateResult> check_gates(const std::vector<Gate>& gates, const Summary& summary,
                                    const Summary* baseline, NoDevice no_device,
                                    const TextStyle& style) {
  std::vector<GateResult> results;
  for (const Gate& gate : gates) {
    if (gate.increase && baseline == nullptr) {
      throw UsageError("{}: an increase needs a --baseline to compare with", gate.text);
    }
    GateResult& result = results.emplace_back();
    result.gate = gate;
    result.value = figure_of(gate, summary);
    if (gate.where.empty()) result.error_bytes = error_of(summary, gate.metric);
    // A figure that the baseline does not have was not measured in it.
    if (gate.increase) result.baseline = largest(metrics_of(*baseline, gate.where), gate.metric);
    if (no_device == NoDevice::kFails && gate.metric.starts_with("device.") &&
        summary.devices.empty()) {
      const std::string why = why_incomplete(gate, summary);
      result.value.reset();
      result.message = fmt::format(
          "{}: {}", gate.shown,
          why.empty()
              ? "the log has no device, so this program used no GPU (is it a wrapper of the "
                "one that is meant?); --allow-no-device accepts that"
              : why);
      continue;
    }
    const std::string what = use_exact_counters(result, summary, baseline);
    gate.increase ? judge_increase(result) : judge_max(result);
    result.message += what + whose(gate, summary, result.value);
    if (!result.value) result.message += why_not_measured(gate, summary);
    if (const std::string why = why_incomplete(gate, summary); !why.empty()) {
      result.message += result.passed ? "; but the run took more: " + why : "; " + why;
      result.passed = false;
    }
    std::string lost = why_lost(gate, summary, "the log");
    if (lost.empty() && gate.increase) lost = why_lost(gate, *baseline, "the baseline");
    if (lost.empty()) lost = why_before(gate, summary);
    if (!lost.empty() && result.passed) {
      result.message += "; but " + lost;
      result.passed = false;
    }
    if (!result.passed)
      result.reasons = reasons(gate, summary, gate.increase ? baseline : nullptr, style);
  }
  return results;
}

}  // namespace gpupeak::collector
