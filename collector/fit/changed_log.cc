#include "collector/fit/changed_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collector/fit/arena_rules.h"
#include "collector/fit/what_if_settings.h"
#include "collector/summary/arena_text.h"
#include "collector/summary/run_text.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

void add_used(const DeviceSummary& device, WhatIfSum& sum) {
  if (!device.ledger || !sum.is_exact()) return;
  const LedgerView& view = device.ledger->at_peak;
  if (view.tracked_bytes != sum.before_bytes) return;
  sum.used_before_bytes = view.used_bytes;
  sum.used_bytes = view.used_bytes - sum.before_bytes + sum.least_bytes;
}

}  // namespace

ChangedLog::ChangedLog(const std::string& path, const Options& options, const Progress& progress,
                       const Summary* known)
    : options_(options), progress_(progress), profile_(path, progress, &first_, options.reading) {
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

bool ChangedLog::has(const Peak& peak) const {
  const ScopeId* const scope = profile_.replay().sites().find_scope(peak.scope);
  return scope != nullptr && profile_.sum(*scope).peak == peak.bytes;
}

WhatIf ChangedLog::with(const Changes& changes, WithCurves curves) {
  require_arenas(*summary_, changes);
  if (changes.needs_uses()) find_last_uses();
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

void ChangedLog::find_last_uses() {
  if (has_last_uses_) return;
  profile_.replay_again(arenas_.last_uses, progress_);
  has_last_uses_ = true;
}

std::optional<Changes::Two> ChangedLog::two_as_one(const Peak& peak) {
  using Life = LastUseTimes::Block;
  constexpr size_t kMostBlocks = 500;
  const ScopeId* const scope = profile_.replay().sites().find_scope(peak.scope);
  if (scope == nullptr) return std::nullopt;
  find_last_uses();
  const std::vector<Life>& all = arenas_.last_uses.of_driver();
  const uint64_t then = profile_.sum(*scope).peak_ticks;
  std::vector<size_t> blocks;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_used = all[i].first != LastUseTimes::kNotKnown;
    if (is_used && all[i].begin <= then && all[i].end > then &&
        profile_.counts_into(all[i].group, *scope) && !arenas_.shared_out.contains(all[i].id))
      blocks.push_back(i);
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [&](size_t a, size_t b) { return all[a].bytes > all[b].bytes; });
  if (blocks.size() > kMostBlocks) blocks.resize(kMostBlocks);
  for (const size_t second : blocks) {  // the largest saving first
    for (const size_t first : blocks) {
      if (all[first].bytes < all[second].bytes || all[first].last >= all[second].first) continue;
      const auto title = [&](size_t block) {
        return profile_.sites().holder({all[block].group, 0, 0}, false).title;
      };
      return Changes::Two{first, second, fmt::format("{}, then {}", title(first), title(second))};
    }
  }
  return std::nullopt;
}

void ChangedLog::find_histories() {
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

void ChangedLog::find_advances() {
  for (const ArenaTable::Arena& info : profile_.replay().arenas().arenas()) {
    const std::string name = profile_.definitions().shown(profile_.replay().name(info.name));
    arenas_.in_advance.push_back(std::any_of(
        summary_->arenas.begin(), summary_->arenas.end(), [&](const ArenaSummary& arena) {
          return arena.name == name && arena.device == info.place && was_taken_in_advance(arena);
        }));
  }
}

bool ChangedLog::has_host(const Changes& changes) const {
  return !summary_->quality.heap_not_read && summary_->quality.heap_sample_bytes == 0 &&
         options_.reading.heap == HeapReading::kAll && !changes.scales.empty();
}

std::vector<int32_t> ChangedLog::drawn(const Changes& changes) const {
  std::vector<int32_t> all;
  for (const DeviceSummary& device : summary_->devices) all.push_back(device.ordinal);
  if (has_host(changes)) all.push_back(WhatIfWatch::kHost);
  return all;
}

WhatIfSum ChangedLog::sum_of(WhatIfWatch& changed, int32_t device, const Peak& peak) const {
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

bool ChangedLog::is_whole(int32_t device, uint64_t replayed) const {
  const Quality& quality = summary_->quality;
  if (quality.exact || (device != WhatIfWatch::kHost && quality.only_heap_inexact)) return true;
  // The contradictions may be only in the heap.
  const gpupeak_counters_page& page = profile_.log().counters();
  const bool is_as_counted = device >= 0 && device < static_cast<int32_t>(page.device_count) &&
                             page.ended != 0 && replayed == page.device[device].total.peak;
  return is_as_counted &&
         std::none_of(quality.warnings.begin(), quality.warnings.end(), [](const Warning& warning) {
           return inexact_by(warning.code) >= Inexact::kAll &&
                  warning.code != WarningCode::kContradictions;
         });
}

void ChangedLog::add_losses(WhatIfSum& sum) const {
  for (const Warning& warning : summary_->quality.warnings) {
    if (inexact_by(warning.code) >= Inexact::kAll)
      sum.notes.push_back(code_text(warning.code) + ": " + warning.message);
  }
}

void ChangedLog::add_note(const WhatIfWatch& changed, WhatIfSum& sum) const {
  if (!changed.is_touched_without_forecast(sum.device)) return;
  const auto why = arenas_.why_not.find(sum.device);
  sum.notes.push_back(fmt::format(
      "its pool is bounded by what is in use of it{}{}",
      sum.most_bytes ? " and what it had reserved" : "",
      why != arenas_.why_not.end() ? ": " + why->second : ", since its rules are not known"));
}

}  // namespace gpupeak::collector
