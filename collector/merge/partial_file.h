// Reads and writes partial results of `gpupeak merge`: files with the records of some logs, small
// enough to be taken to where all are merged. A file is compressed with zstd and has lines of JSON:
// the first says what the file is, the others have a record each, by id. The bytes depend only on
// the set of logs.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "collector/merge/process_record.h"

namespace gpupeak::collector {

/// The ending of a partial result's file name. In a folder such files are found by it.
inline constexpr std::string_view kPartialEnding = ".gpmerge";

/// Whether the first bytes are those of a partial result; false if the file cannot be read.
bool is_partial(const std::string& path);

/// `version`: this command's. Throws std::runtime_error if zstd fails.
void write_partial(std::vector<ProcessRecord> records, std::string_view version, std::ostream& out);

/// Reads the records. Throws LogError if the file is damaged, cut off, or made by a newer gpupeak.
std::vector<ProcessRecord> read_partial(const std::string& path);

// Writes a ProcessRecord as one line of JSON, and reads it, for partial results. docs/merge.md
// describes the fields.

std::string record_text(const ProcessRecord& record);

/// Reads a record. Throws std::runtime_error that says what is wrong with it.
ProcessRecord record_of(std::string_view text);

}  // namespace gpupeak::collector
