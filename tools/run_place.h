// Where a run's logs go, and whether they can be written there.
#pragma once

#include <string>

namespace gpupeak::tools {

/// `out`: name or pattern, as -o has it; empty: GPUPEAK_OUT, else the default.
std::string absolute_pattern(const std::string& out);
/// Where child processes' logs go. A name that tells processes apart is meant for all of them; else
/// they have a folder of their own, however many they are.
std::string children_pattern(const std::string& pattern);
/// Says why no log can be written there. The library would say so, too.
bool can_be_written(const std::string& pattern, bool quiet);
/// To be called before the program starts. Removes an earlier log of this name: if this run records
/// nothing, the old log must not be taken for its own.
void prepare_place(const std::string& pattern, bool quiet);
/// What is known of the log's name before the program is there: of a pattern its folder.
std::string where_recorded(const std::string& pattern);

}  // namespace gpupeak::tools
