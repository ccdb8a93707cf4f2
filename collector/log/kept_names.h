// Names that `gpupeak run` keeps in a log when the run has ended, of programs and libraries that
// may change: a table as `gpupeak symbolize` writes it (symbol_table.h), packed, in a chunk behind
// all others. It is asked where a module's file is no longer the one that ran. `run` writes it,
// LogReader reads it, Symbolizer asks it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "collector/log/definitions.h"
#include "collector/log/symbol_table.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

/// The kind of the chunk; older readers pass over it.
inline constexpr uint32_t kNamesChunk = GPUPEAK_CHUNK_NAMES;
/// What such a table says of a module in the place of a problem: its file comes first as long as it
/// is there.
inline constexpr std::string_view kKeptAtEnd = "kept";
/// The same, of the addresses that there was time and room for.
inline constexpr std::string_view kKeptInPart = "kept in part";
/// Its names are not in the table, whatever could have been read.
inline constexpr std::string_view kNotKept = "not kept";

/// Whether a system's packages own what lies there: it does not change while one works on a
/// program, and other machines have it from the same packages.
bool is_of_system(std::string_view path);
/// Whether the table has names of this module that a run has kept, all or some of them.
bool has_kept(const SymbolTable& table, const Module& module);
/// Whether the table is what a run has kept, and not what somebody made.
bool is_kept_table(const SymbolTable& table, const Definitions& definitions);

/// Into a log whose process has ended. `instead_of`: what an earlier call gave; 0: there was none.
/// Returns 0 where that cannot be.
uint64_t write_kept_names(const std::string& log, const SymbolTable& names, uint64_t instead_of);
/// The table's text, of what lies behind the chunk's header. Throws LogError.
std::string unpack_kept_names(std::span<const uint8_t> chunk);

}  // namespace gpupeak::collector
