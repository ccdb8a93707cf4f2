// The mappings of a process that is only counted. If it gets a log later, the log begins with the
// mappings that are there. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// Returns how many bytes of anonymous memory that can be written are mapped now.
uint64_t note_counted_mapping(uint64_t at, uint64_t bytes, int prot, gpupeak_kind kind);
/// The same, without a change.
uint64_t counted_mapping_bytes();
/// The same of a part of what is mapped, which may now be used otherwise.
uint64_t reprotect_counted_mapping(uint64_t at, uint64_t bytes, int prot);
/// The range is gone, or has become another mapping's.
void forget_counted_mapping(uint64_t at, uint64_t bytes);
/// Writes MAP records of all, when the log is open.
void log_counted_mappings();
/// In a forked child.
void reset_counted_mappings();

}  // namespace gpupeak::preload
