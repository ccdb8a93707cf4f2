// The mappings of a process that is only counted. If the process gets a log later, the log begins
// with the mappings of then. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "gpupeak/log_format.h"

namespace gpupeak::preload {

struct CountedMapping {
  uint64_t begin, end;
  int prot;
  gpupeak_kind kind;
};
/// What a call took out of the account, as far as there is room.
struct CountedPieces {
  static constexpr uint32_t kMost = 4;
  uint32_t count = 0;
  CountedMapping at[kMost];
};

/// Notes a new mapping. Returns counted_mapping_bytes().
uint64_t note_counted_mapping(uint64_t at, uint64_t bytes, int prot, gpupeak_kind kind);
/// How many bytes of writable anonymous memory are mapped now.
uint64_t counted_mapping_bytes();
/// A part of the mappings has another protection now. Returns counted_mapping_bytes().
uint64_t reprotect_counted_mapping(uint64_t at, uint64_t bytes, int prot);
/// The range is unmapped, or belongs to another mapping now.
CountedPieces forget_counted_mapping(uint64_t at, uint64_t bytes);
/// The kernel refused to unmap them.
void keep_counted_mappings(const CountedPieces& pieces);
/// Writes a MAP record for each mapping, once the log is open, and forgets the mappings.
void log_counted_mappings();
/// In a forked child.
void reset_counted_mappings();

}  // namespace gpupeak::preload
