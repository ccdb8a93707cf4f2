// `gpupeak run --limit` and `--gpu`: cards that are to look smaller than they are.
#pragma once

#include <string>

namespace gpupeak::tools {

/// What GPUPEAK_LIMIT has to be. `limit`: "24GiB" for each GPU, or "0=24GiB,1=16GiB"; `gpu`: cards by
/// their names in the same way, of which each gives the least that was seen of it. One of them is
/// empty; both: so is the result. Throws UsageError.
std::string limit_variable(const std::string& limit, const std::string& gpu);

}  // namespace gpupeak::tools
