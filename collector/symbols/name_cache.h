// Keeps the names of one module's addresses that were looked up, below XDG_CACHE_HOME, so that the
// next report does not unpack and read the same debug information again. ModuleSymbols uses it.
//
// in    the names that this report has looked up, and the files that were opened or looked for
// out   the same names, as long as each of those files is as it was, and so is this command
//
//   libc.so.6, found by its build-id in /usr/lib/debug
//     0x271c9 → __libc_start_call_main   libc_start_call_main.h:58
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/files/file_state.h"
#include "collector/log/symbol_table.h"

namespace gpupeak::collector {

/// By ELF address.
using CachedNames = std::unordered_map<uint64_t, std::vector<DwarfFrame>>;

/// Whether the names may be kept. False for none, and for names that rules or type information
/// gave: rules may change while the files do not.
bool can_be_cached(const std::vector<DwarfFrame>& frames);

/// The names that are kept. `key`: the module, and where its names are looked for. Empty if nothing
/// is kept, if one of the files has changed, or if the cache is damaged or another user's.
CachedNames read_cached_names(const std::string& key);
/// Keeps those of the names for which can_be_cached() is true.
void write_cached_names(const std::string& key, const std::vector<FileState>& files,
                        const CachedNames& names);

}  // namespace gpupeak::collector
