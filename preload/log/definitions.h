// The stream of definitions as a value that survives a fork: strings and stack nodes keep their
// ids, so a child's own log can be given all of them again. HOOK-SAFE, inside a HookScope.
#pragma once

#include "base/lock.h"
#include "log/log.h"

namespace gpupeak::preload {

/// Held while ids are given out, so that the order in the stream is the order of the ids. Never
/// call into the loader with it held.
FutexLock& definitions_lock();
/// define() for a caller that holds the lock.
void define_locked(const Record& record);
/// A NODE record, for a caller that holds the lock. `distance` and `ip_delta` as in log_format.h.
void define_node_locked(uint32_t distance, int64_t ip_delta);
/// How many nodes were defined whole, even if a jump came right after a definition.
uint64_t defined_nodes_locked();
/// The same without the lock; the number may change meanwhile.
uint64_t defined_nodes();

/// Call it when the log has ended: gives its last chunk back, so that another log may be opened.
void leave_definitions();
/// In a log that was just opened: starts the stream anew. All strings that were known before (from
/// a forked child's parent, or from the log before) are defined again, under their old ids.
void restart_definitions();

}  // namespace gpupeak::preload
