// Names of functions that `gpupeak run` adds to a log when the run has ended, for programs and
// libraries that may change later. They are a table as `gpupeak symbolize` writes it
// (symbol_table.h), packed, in a chunk behind all others. Symbolizer asks it where a module's file
// is no longer the one that ran. `run` writes the chunk, LogReader reads it.
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
/// What such a table has as a module's problem: its names were kept, but its file comes first while
/// it is there.
inline constexpr std::string_view kKeptAtEnd = "kept";
/// The same; there was time and room only for some of its addresses.
inline constexpr std::string_view kKeptInPart = "kept in part";
/// Its file was gone before the run had ended: the program itself has logged which functions it
/// exports.
inline constexpr std::string_view kOnlyExported = "exported functions alone";
/// None of its names were kept; that does not say that it has none.
inline constexpr std::string_view kNotKept = "not kept";

/// Whether the system's packages own the file at `path`. Such a file does not change while somebody
/// works on a program, and other machines have it from the same packages.
bool is_of_system(std::string_view path);
/// Whether the table has names of this module that a run has kept, all or some of them.
bool has_kept(const SymbolTable& table, const Module& module);
/// Whether the table is one that a run kept, and not one that somebody made with `gpupeak
/// symbolize`.
bool is_kept_table(const SymbolTable& table, const Definitions& definitions);

/// Writes the names into a log whose process has ended, and returns the chunk's offset; 0: it could
/// not. `instead_of`: the offset that an earlier call returned, which is written over; 0: there is
/// none.
uint64_t write_kept_names(const std::string& log, const SymbolTable& names, uint64_t instead_of);
/// Unpacks what lies behind the chunk's header and returns the table's text. Throws LogError.
std::string unpack_kept_names(std::span<const uint8_t> chunk);

}  // namespace gpupeak::collector
