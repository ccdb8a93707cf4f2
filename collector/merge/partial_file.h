// A partial result of `gpupeak merge`: the records of some logs in a file, small enough to be taken
// where all come together. Compressed with zstd, a line of JSON each: first what the file is, then
// a record a line, by their ids. The bytes depend on the set of logs alone.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "collector/merge/process_record.h"

namespace gpupeak::collector {

/// The ending of a partial result's file name, by which those in a folder are found.
inline constexpr std::string_view kPartialEnding = ".gpmerge";

/// Decided by its first bytes; false for what cannot be read.
bool is_partial(const std::string& path);

/// `version`: of this command. Throws std::runtime_error where zstd fails.
void write_partial(std::vector<ProcessRecord> records, std::string_view version, std::ostream& out);

/// Throws LogError if it is damaged, cut off, or made by a newer gpupeak.
std::vector<ProcessRecord> read_partial(const std::string& path);

}  // namespace gpupeak::collector
