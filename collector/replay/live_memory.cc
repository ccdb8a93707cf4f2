#include "collector/replay/live_memory.h"

#include <string>

#include "collector/log/kinds.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {

LiveMemory::LiveMemory(ReplayObserver* observer, uint32_t integrated)
    : observer_(observer),
      sites_(peaks_, integrated),
      device_scope_(sites_.scopes_for(GPUPEAK_KIND_LINEAR, -1)[1]),
      host_scope_(sites_.scopes_for(GPUPEAK_KIND_HEAP, -1)[1]) {
  if (observer != nullptr) peaks_.find_groups_at_once();
}

uint64_t LiveMemory::bytes_of(int32_t device, uint8_t kind) const {
  if (device < 0) return 0;  // nothing is counted for an unknown device
  const ScopeId* scope = sites_.find_scope(ScopeKey::device(device, kind_name(kind)).text());
  return scope != nullptr ? peaks_.scope(*scope).current : 0;
}

uint64_t LiveMemory::peak_ticks_of(int32_t device) const {
  const ScopeId* scope = device < 0 ? nullptr : sites_.find_scope(ScopeKey::device(device).text());
  return scope != nullptr ? peaks_.scope(*scope).peak_ticks : 0;
}

uint64_t LiveMemory::host_bytes_of(uint8_t kind) const {
  const ScopeId* scope = sites_.find_scope("host/" + std::string(kind_name(kind)));
  return scope != nullptr ? peaks_.scope(*scope).current : 0;
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
