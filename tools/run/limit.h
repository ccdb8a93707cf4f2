// `gpupeak run --limit` and `--gpu`: cards that are to look smaller than they are.
#pragma once

#include <string>

namespace gpupeak::tools {

/// The value for GPUPEAK_LIMIT. `limit`: "24GiB" for each GPU, or "0=24GiB,1=16GiB". `gpu`: names
/// of cards, written in the same way; a card's limit is the least capacity that was seen of such a
/// card. At most one of the two is given; if both are empty, so is the result. Throws UsageError.
std::string limit_variable(const std::string& limit, const std::string& gpu);

}  // namespace gpupeak::tools
