// Writes all of the log but events: definitions, and the counters page. A thread writes
// its events by thread/emit.h. Every function is HOOK-SAFE and must be called inside a HookScope.
//
// in    a fact, a string, a stack's node, a library; a gauge that moves
// out   a definition, written before the first event that uses it; a word of the counters page
//
//   intern_string("weights") the first time   STRING in the stream of definitions; answers id 12
//   "weights" once more                       nothing is written; answers id 12
//
//   | header | counters page | definitions | chunk of thread 1 | chunk of thread 2 | …
#pragma once

#include <cstdint>
#include <string_view>

#include "log/counters.h"
#include "log/record.h"

namespace gpupeak::preload {

/// Appends to the definitions. Takes the definitions' lock.
void define(const Record& record);
void define_fact(std::string_view key, std::string_view value);
/// Call it when the log can grow again: defines the fact log.gap, the time in which it could not.
/// The caller must not hold the definitions' lock.
void say_log_gap(bool at_end = false);
/// Call it at the log's end: writes the definitions that wait for room.
void end_definitions();
/// The id of `text` in the log's string table, defined at its first use; 0 if that failed.
uint32_t intern_string(std::string_view text);

}  // namespace gpupeak::preload
