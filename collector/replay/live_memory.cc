#include "collector/replay/live_memory.h"

#include <string>

#include "collector/log/kinds.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

constexpr char kTotal[] = "total";

}  // namespace

bool counts_into(const SiteContext& context, const ScopeInfo& scope) {
  if (scope.device >= 0 && scope.device != context.device) return false;
  if (scope.kind != 0) return scope.kind == context.kind;
  if (context.kind == GPUPEAK_KIND_MANAGED && context.device >= 0)
    return (scope.integrated >> context.device & 1) != 0;
  const bool side =
      scope.name == kTotal || scope.name.starts_with("device") == is_device_kind(context.kind);
  return side && counts_into_sum(context.kind);
}

SiteTable::SiteTable(PeakFinder& peaks, uint32_t integrated)
    : peaks_(peaks), integrated_(integrated) {}

ContextId SiteTable::context(const SiteContext& context) {
  const auto [entry, added] =
      context_ids_.try_emplace(context, static_cast<ContextId>(contexts_.size()));
  if (added) {
    contexts_.push_back(context);
    countings_.push_back(counting(context));
    peaks_.add_context(countings_.back());
  }
  return entry->second;
}

PeakFinder::Counting SiteTable::counting(const SiteContext& context) {
  size_t side = is_device_kind(context.kind) ? size_t{kDeviceSide} : size_t{kHostSide};
  if (!counts_into_sum(context.kind)) side = kPhaseSides;
  return {peaks_.scope_list(scopes_for(context.kind, context.device)),
          owner_of(context.phase, side)};
}

GroupId SiteTable::group(const Site& site) {
  const uint64_t key = uint64_t{site.context} << 32 | site.stack;
  const auto [entry, added] = groups_.try_emplace(key, kNoGroup);
  if (added) entry->second = peaks_.group_of(site, countings_[site.context]);
  return entry->second;
}

ScopeId SiteTable::scope(const std::string& name, int32_t device, uint8_t kind) {
  const auto [entry, added] = scope_ids_.try_emplace(name, ScopeId{0});
  if (added) {
    entry->second = peaks_.add_scope();
    scopes_.push_back({name, device, kind, name == kTotal ? integrated_ : 0});
  }
  return entry->second;
}

const ScopeId* SiteTable::find_scope(const std::string& name) const {
  const auto entry = scope_ids_.find(name);
  return entry == scope_ids_.end() ? nullptr : &entry->second;
}

std::vector<ScopeId> SiteTable::scopes_for(uint8_t kind, int32_t device) {
  const bool of_device = is_device_kind(kind);
  const std::string_view name = kind_name(kind);
  std::vector<ScopeId> scopes;
  const auto add = [&](const ScopeKey& key, int32_t ordinal, uint8_t of_kind) {
    scopes.push_back(scope(key.text(), ordinal, of_kind));
  };
  if (counts_into_sum(kind)) {
    add(ScopeKey::total(), -1, 0);
    add(of_device ? ScopeKey::devices() : ScopeKey::host(), -1, 0);
  }
  if (kind == GPUPEAK_KIND_MANAGED && is_integrated(device)) add(ScopeKey::total(), -1, 0);
  add(of_device ? ScopeKey::devices(name) : ScopeKey::host(name), -1, kind);
  if (of_device && device >= 0) {
    if (counts_into_sum(kind)) add(ScopeKey::device(device), device, 0);
    add(ScopeKey::device(device, name), device, kind);
  }
  return scopes;
}

LiveMemory::LiveMemory(ReplayObserver* observer, uint32_t integrated)
    : observer_(observer),
      sites_(peaks_, integrated),
      device_scope_(sites_.scopes_for(GPUPEAK_KIND_LINEAR, -1)[1]),
      host_scope_(sites_.scopes_for(GPUPEAK_KIND_HEAP, -1)[1]) {
  if (observer != nullptr) peaks_.find_groups_at_once();
}

const PeakFinder::Scope& LiveMemory::sum(const std::string& scope) const {
  static const PeakFinder::Scope kNothing;
  const ScopeId* const id = sites_.find_scope(scope);
  return id != nullptr ? peaks_.scope(*id) : kNothing;
}

uint64_t LiveMemory::bytes_of(int32_t device, uint8_t kind) const {
  if (device < 0) return 0;  // nothing is counted for an unknown device
  return sum(ScopeKey::device(device, kind_name(kind)).text()).current;
}

uint64_t LiveMemory::peak_ticks_of(int32_t device) const {
  return device < 0 ? 0 : sum(ScopeKey::device(device).text()).peak_ticks;
}

uint64_t LiveMemory::host_bytes_of(uint8_t kind) const {
  return sum("host/" + std::string(kind_name(kind))).current;
}

PhaseMoment LiveMemory::moment(uint64_t ticks) {
  PhaseMoment moment;
  moment.ticks = ticks;
  moment.now = {device_bytes(), host_bytes()};
  moment.owned = peaks_.owned();
  moment.max = {peaks_.take_recent_max(device_scope_), peaks_.take_recent_max(host_scope_)};
  return moment;
}

}  // namespace gpupeak::collector
