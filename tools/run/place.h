// Where a run's logs go, and whether they can be written there.
#pragma once

#include <string>

namespace gpupeak::tools {

/// `out`: name or pattern, as -o has it; empty: GPUPEAK_OUT, else the default.
std::string absolute_pattern(const std::string& out);
/// The pattern of child processes' logs. A pattern that the user gave is for all processes. If
/// there is only a name, or the default, all child processes' logs go into one folder of their own.
std::string children_pattern(const std::string& pattern);
/// Whether logs can be written there; if not, says why, unless `quiet`. The library would say so,
/// too.
bool can_be_written(const std::string& pattern, bool quiet);
/// To be called before the program starts. Removes an earlier log of this name: if this run records
/// nothing, the old log must not be taken for its own.
void prepare_place(const std::string& pattern, bool quiet);
/// "to FILE", or "into FOLDER" for a pattern: what is known of the log's name before the program
/// runs.
std::string where_recorded(const std::string& pattern);

}  // namespace gpupeak::tools
