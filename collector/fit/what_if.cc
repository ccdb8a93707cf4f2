#include "collector/fit/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/fit/arena_model.h"
#include "collector/fit/need_watch.h"
#include "collector/fit/what_if_watch.h"
#include "collector/summary/run_text.h"
#include "collector/summary/summary.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

// Finds which settings the arenas of a log could have had.

bool is_torch_pool(const ArenaSummary& arena) {
  return arena.device.has_value() && arena.name == "PyTorch";
}
bool is_ort_arena(const ArenaSummary& arena) {
  return arena.device.has_value() && arena.name.starts_with("ONNX Runtime");
}
bool took_in_advance(const ArenaSummary& arena) {
  return arena.device.has_value() && was_taken_in_advance(arena);
}

/// A setting of some arenas.
struct Setting {
  bool Changes::*is_on;
  bool (*is_of)(const ArenaSummary&);
  const char* has_none;  ///< what is said where the log has no such arena
};
constexpr Setting kSettings[] = {
    {&Changes::expandable_segments, is_torch_pool,
     "--expandable-segments: the log has no pool of PyTorch's on a GPU"},
    {&Changes::same_as_requested, is_ort_arena,
     "--arena same-as-requested: the log has no arena of ONNX Runtime's on a GPU"},
    {&Changes::no_preallocation, took_in_advance,
     "--no-preallocation: the log has no pool that took its memory in advance"}};

/// Throws UsageError for a setting of an arena that the log does not have.
void require_arenas(const Summary& summary, const Changes& changes) {
  for (const Setting& setting : kSettings) {
    if (changes.*setting.is_on && std::ranges::none_of(summary.arenas, setting.is_of))
      throw UsageError(setting.has_none);
  }
  if (changes.needs_uses() && !summary.has_uses)
    throw UsageError(
        "--{}: the log does not say when memory was used: record it with `gpupeak run --last-use`",
        changes.free_at_last_use    ? "free-at-last-use"
        : changes.take_at_first_use ? "take-at-first-use"
                                    : "without-unused");
}

/// The settings that the log's arenas know.
std::vector<Changes> settings_of(const Summary& summary) {
  std::vector<Changes> all;
  for (const Setting& setting : kSettings) {
    if (std::ranges::any_of(summary.arenas, setting.is_of))
      all.emplace_back().*setting.is_on = true;
  }
  if (!summary.has_uses) return all;
  all.emplace_back().without_unused = true;
  all.emplace_back().free_at_last_use = true;
  all.emplace_back().take_at_first_use = true;
  return all;
}

void add_used(const DeviceSummary& device, WhatIfSum& sum) {
  if (!device.ledger || !sum.is_exact()) return;
  const LedgerView& view = device.ledger->at_peak;
  if (view.tracked_bytes != sum.before_bytes) return;
  sum.used_before_bytes = view.used_bytes;
  sum.used_bytes = view.used_bytes - sum.before_bytes + sum.least_bytes;
}

// A log that is asked what it would have been with one change after another. It keeps what does not
// depend on the change, so that this is found only once.
class ChangedLog {
 public:
  /// `known`: the log's summary, if somebody has it already.
  ChangedLog(const LogReader& log, const Options& options, const Progress& progress,
             const Summary* known = nullptr)
      : options_(options),
        progress_(progress),
        profile_(log, log.path(), progress, &arenas_.last_uses, options.reading) {
    tell_calls_apart(profile_.replay(), profile_.titles(),
                     options.reading.heap != HeapReading::kNone);
    arenas_.shared_out = profile_.replay().arenas().shared_out();
    if (!arenas_.shared_out.empty()) {
      again_.emplace(arenas_.shared_out, rules_of(profile_.replay()));
      profile_.replay_again(*again_, progress);
      again_->finish();
    }
    if (known == nullptr) made_ = summarize(profile_, options);
    summary_ = known == nullptr ? &made_ : known;
    find_histories();
    find_advances();
  }

  const Summary& summary() const { return *summary_; }
  /// Whether the replay comes to that peak. It may not if events were lost, or if the log has grown
  /// since.
  bool has(const Peak& peak) const {
    const ScopeId* const scope = profile_.replay().sites().find_scope(peak.scope);
    return scope != nullptr && profile_.sum(*scope).peak == peak.bytes;
  }

  /// Whether a change of when blocks are there could lower the peak: one that is live then would
  /// not be. If arenas have blocks, that is not asked.
  bool may_lower(const Changes& changes, const Peak& peak) const {
    const ScopeId* const scope = profile_.replay().sites().find_scope(peak.scope);
    if (scope == nullptr || !changes.needs_uses() || !summary_->arenas.empty()) return true;
    const uint64_t then = profile_.sum(*scope).peak_ticks;
    return std::ranges::any_of(
        arenas_.last_uses.of_driver(), [&](const LastUseTimes::Block& block) {
          const bool is_live = block.begin <= then && block.end >= then;
          const bool is_used = block.uses.count > 0;
          return is_live && ((changes.without_unused && block.was_never_used()) ||
                             (changes.free_at_last_use && is_used && block.uses.last <= then) ||
                             (changes.take_at_first_use && is_used && block.uses.first >= then));
        });
  }

  /// The two blocks at the peak of a device that save most if one takes the memory of the other:
  /// its first use comes after the other's last one, and it is no larger.
  std::optional<Changes::Two> two_as_one(const Peak& peak) {
    using Life = LastUseTimes::Block;
    constexpr size_t kMostBlocks = 500;
    const ScopeId* const scope = profile_.replay().sites().find_scope(peak.scope);
    if (scope == nullptr) return std::nullopt;
    const std::vector<Life>& all = arenas_.last_uses.of_driver();
    const uint64_t then = profile_.sum(*scope).peak_ticks;
    std::vector<size_t> blocks;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].uses.count > 0 && all[i].begin <= then && all[i].end > then &&
          profile_.counts_into(all[i].group, *scope) && !arenas_.shared_out.contains(all[i].id))
        blocks.push_back(i);
    }
    std::ranges::stable_sort(blocks, std::greater(), [&](size_t i) { return all[i].bytes; });
    if (blocks.size() > kMostBlocks) blocks.resize(kMostBlocks);
    for (const size_t second : blocks) {  // the largest saving first
      for (const size_t first : blocks) {
        if (all[first].bytes < all[second].bytes || all[first].uses.last >= all[second].uses.first)
          continue;
        const auto title = [&](size_t block) {
          return profile_.sites().holder({all[block].group, 0, 0}, false).title;
        };
        return Changes::Two{first, second, fmt::format("{}, then {}", title(first), title(second))};
      }
    }
    return std::nullopt;
  }

  WhatIf with(const Changes& changes, WithCurves curves = WithCurves::kNo) {
    require_arenas(*summary_, changes);
    WhatIf result;
    result.changes = changes;
    result.log = summary_->log_path;
    result.duration_ns = summary_->run.duration_ns;
    WhatIfWatch changed(profile_, changes, arenas_);
    if (curves == WithCurves::kYes) changed.draw(drawn(changes));
    profile_.replay_again(changed, progress_);
    changed.finish();
    result.matched = changed.matched();
    for (const DeviceSummary& device : summary_->devices) {
      const Peak* peak = summary_->find_peak(ScopeKey::device(device.ordinal).text());
      if (!was_used(device) || peak == nullptr) continue;
      WhatIfSum sum = sum_of(changed, device.ordinal, *peak);
      sum.name = device.name;
      add_used(device, sum);
      add_note(changed, sum);
      result.sums.push_back(std::move(sum));
    }
    const Peak* host = summary_->find_peak(ScopeKey::host().text());
    if (has_host(changes) && host != nullptr)
      result.sums.push_back(sum_of(changed, WhatIfWatch::kHost, *host));
    return result;
  }

 private:
  void find_histories() {
    if (!again_) return;  // no arena shared anything out
    for (const DeviceSummary& device : summary_->devices) {
      const ArenaRequests* const history = again_->arena(device.ordinal);
      if (history == nullptr) continue;
      if (history->why_not().empty()) {
        arenas_.histories[device.ordinal] = history;
      } else {
        arenas_.why_not[device.ordinal] = history->why_not();
      }
    }
  }
  void find_advances() {
    for (const ArenaTable::Arena& info : profile_.replay().arenas().arenas()) {
      const std::string name = profile_.definitions().shown(profile_.replay().name(info.name));
      arenas_.in_advance.push_back(
          std::ranges::any_of(summary_->arenas, [&](const ArenaSummary& arena) {
            return arena.name == name && arena.device == info.place && was_taken_in_advance(arena);
          }));
    }
  }
  /// Whether the answer includes the host's memory.
  bool has_host(const Changes& changes) const {
    return !summary_->quality.heap_not_read && summary_->quality.heap_sample_bytes == 0 &&
           options_.reading.heap == HeapReading::kAll && !changes.scales.empty();
  }
  std::vector<int32_t> drawn(const Changes& changes) const {
    std::vector<int32_t> all = list_of(summary_->devices, &DeviceSummary::ordinal);
    if (has_host(changes)) all.push_back(WhatIfWatch::kHost);
    return all;
  }
  /// The replay's peak without the change. Not the summary's: if events were lost, that is what the
  /// library counted, and it cannot be compared with figures of a replay.
  WhatIfSum sum_of(WhatIfWatch& changed, int32_t device, const Peak& peak) const {
    WhatIfSum sum = changed.sum_of(device, options_.top);
    sum.curve = changed.take_curve(device);
    if (const ScopeId* const scope = profile_.replay().sites().find_scope(peak.scope)) {
      sum.before_bytes = profile_.sum(*scope).peak;
      sum.before_time_ns = profile_.to_ns(profile_.sum(*scope).peak_ticks);
    }
    if (peak.counted) sum.counted_bytes = peak.bytes;
    sum.is_whole = !peak.counted && is_whole(device, sum.before_bytes);
    if (!sum.is_whole) add_losses(sum);
    return sum;
  }
  bool is_whole(int32_t device, uint64_t replayed) const {
    const Quality& quality = summary_->quality;
    if (quality.exact || (device != WhatIfWatch::kHost && quality.only_heap_inexact)) return true;
    // The contradictions may be only in the heap.
    const gpupeak_counters_page& page = profile_.log().counters();
    const bool is_as_counted = device >= 0 && device < static_cast<int32_t>(page.device_count) &&
                               page.ended != 0 && replayed == page.device[device].total.peak;
    return is_as_counted && std::ranges::none_of(quality.warnings, [](const Warning& warning) {
             return inexact_by(warning.code) >= Inexact::kAll &&
                    warning.code != WarningCode::kContradictions;
           });
  }
  void add_losses(WhatIfSum& sum) const {
    for (const Warning& warning : summary_->quality.warnings) {
      if (inexact_by(warning.code) >= Inexact::kAll)
        sum.notes.push_back(code_text(warning.code) + ": " + warning.message);
    }
  }
  void add_note(const WhatIfWatch& changed, WhatIfSum& sum) const {
    if (!changed.is_touched_without_forecast(sum.device)) return;
    const std::string* const why = value_in(arenas_.why_not, sum.device);
    sum.notes.push_back(
        fmt::format("its pool is bounded by what is in use of it{}{}",
                    sum.most_bytes ? " and what it had reserved" : "",
                    why != nullptr ? ": " + *why : ", since its rules are not known"));
  }

  const Options& options_;
  const Progress& progress_;
  KnownArenas arenas_;  // its last uses watch the profile's replay, which points to them
  Profile profile_;
  std::optional<NeedWatch> again_;  // `arenas_` points into it
  Summary made_;
  const Summary* summary_ = nullptr;
};

uint64_t gain(const WhatIf& what_if) {
  const WhatIfSum& sum = what_if.sums.front();
  const uint64_t after = sum.most_bytes.value_or(sum.least_bytes);
  return sum.before_bytes - std::min(sum.before_bytes, after);
}

/// A change after which nothing is left is no advice.
bool leaves_something(const WhatIfSum& sum) {
  return sum.most_bytes.value_or(sum.least_bytes) > 0;
}

/// settings_of(), and two blocks as one.
std::vector<Changes> all_settings(const Summary& summary, const Peak& peak, ChangedLog& log) {
  std::vector<Changes> all = settings_of(summary);
  if (!summary.has_uses) return all;
  std::erase_if(all, [&](const Changes& one) { return !log.may_lower(one, peak); });
  if (auto two = log.two_as_one(peak)) all.emplace_back().one_for_two = std::move(two);
  return all;
}

/// The changes that lower the peak's device by a hundredth or more, each alone, the most first.
std::vector<WhatIf> that_lower(const Peak& peak, const std::vector<Changes>& all,
                               ChangedLog& before, WithCurves curves = WithCurves::kNo) {
  constexpr uint64_t kWorthALine = 100;  // a hundredth of the peak
  std::vector<WhatIf> results;
  for (const Changes& changes : all) {
    WhatIf result = before.with(changes, curves);
    std::erase_if(result.sums, [&](const WhatIfSum& sum) {
      return ScopeKey::device(sum.device).text() != peak.scope;
    });
    if (result.sums.empty()) continue;
    const uint64_t worth = (result.sums.front().before_bytes + kWorthALine - 1) / kWorthALine;
    if (gain(result) >= worth && leaves_something(result.sums.front()))
      results.push_back(std::move(result));
  }
  std::ranges::stable_sort(results, std::greater(), [](const WhatIf& of) { return gain(of); });
  return results;
}

uint64_t requests_of_pools(const Summary& summary) {
  return sum_of(summary.arenas,
                [](const ArenaSummary& arena) { return arena.device ? arena.alloc_count : 0; });
}

}  // namespace

WhatIf what_if(const std::string& path, const Changes& changes, const Options& options,
               const Progress& progress, WithCurves curves) {
  Options reading = options;
  if (changes.scales.empty()) reading.reading.heap = HeapReading::kNone;
  const LogReader log(path, reading.reading.sanitizer, reading.reading.heap);
  ChangedLog before(log, reading, progress);
  WhatIf result = before.with(changes, curves);
  for (size_t i = 0; i < result.matched.size(); ++i) {
    if (result.matched[i] > 0) continue;
    throw UsageError("'{}' matches no block's function, site, tag or phase",
                     escape(changes.scales[i].pattern));
  }
  return result;
}

// Finds what would lower a log's largest peak, each change alone.

std::vector<WhatIf> what_would_lower(const std::string& path, const Options& options,
                                     const Progress& progress, WithCurves curves) {
  constexpr size_t kMostSites = 4;
  Options reading = options;
  reading.reading.heap = HeapReading::kNone;
  const LogReader log(path, reading.reading.sanitizer, reading.reading.heap);
  ChangedLog before(log, reading, progress);
  const Peak* const peak = largest_device_peak(before.summary());
  if (peak == nullptr) return {};
  std::vector<Changes> sites;
  for (const Holder& holder : peak->holders) {
    if (holder.kind == "device.idle" || holder.kind == "device.not_recorded" ||
        sites.size() == kMostSites)
      continue;
    // A site with several kinds of memory has a row for each.
    const bool is_known = std::ranges::any_of(
        sites, [&](const Changes& site) { return site.scales.front().pattern == holder.title; });
    if (!is_known && holder.title.find_first_of("*?") == std::string::npos)
      sites.emplace_back().scales.push_back({holder.title, 0});
  }
  // Settings come before what would have to be programmed.
  std::vector<WhatIf> results =
      that_lower(*peak, all_settings(before.summary(), *peak, before), before, curves);
  for (WhatIf& site : that_lower(*peak, sites, before, curves)) results.push_back(std::move(site));
  return results;
}

bool add_lowering(Summary& summary, LogReader& log, const Options& options,
                  const Progress& progress) {
  constexpr uint64_t kMostRequests = 100'000;
  // If the arenas' names are hashes, it is not known whose they are.
  if (summary.confidential && !summary.arenas.empty()) return false;
  const std::vector<Changes> settings = settings_of(summary);
  const Peak* const peak = largest_device_peak(summary);
  if (settings.empty() || peak == nullptr) {
    summary.lowering.emplace();
    return false;
  }
  if (peak->counted || summary.quality.log_end == LogEnd::kRunning) return false;
  Lowering lowering{peak->scope, peak->bytes, 0, {}};
  if (const uint64_t requests = requests_of_pools(summary); requests > kMostRequests) {
    lowering.untried_requests = requests;
    summary.lowering = std::move(lowering);
    return false;
  }
  // Names are needed only to tell which two blocks could be one.
  Options reading;
  reading.top = 0;
  reading.reading.sanitizer = options.reading.sanitizer;
  reading.reading.search = options.reading.search;
  reading.reading.search.files &= summary.has_uses;
  reading.reading.rules = {{"none"}, {}, {}};
  reading.reading.heap = HeapReading::kNone;
  log.leave_heap_out();
  ChangedLog before(log, reading, progress, &summary);
  if (!before.has(*peak)) return true;
  for (const WhatIf& what_if : that_lower(*peak, all_settings(summary, *peak, before), before)) {
    const WhatIfSum& sum = what_if.sums.front();
    lowering.rows.push_back(
        {what_if.changes.settings().front(), sum.least_bytes, sum.most_bytes, sum.time_ns,
         what_if.changes.one_for_two ? what_if.changes.one_for_two->titles : ""});
  }
  summary.lowering = std::move(lowering);
  return true;
}

bool add_quick_lowering(Summary& summary, LogReader& log, const Options& options,
                        const Progress& progress) {
  constexpr uint64_t kSmallLog = 4 << 20;
  return summary.has_uses && summary.arenas.empty() && summary.log_bytes <= kSmallLog &&
         add_lowering(summary, log, options, progress);
}

}  // namespace gpupeak::collector
