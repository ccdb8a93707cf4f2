// The NVTX domains in which libraries mark their own insides: XLA's passes, NCCL's collectives.
// Such a mark tells where a library was, not what the program did, so no headline names it as the
// phase.
#pragma once

#include <string_view>

namespace gpupeak::collector {

/// `domain`: an NVTX domain's name; case does not matter.
bool is_library_domain(std::string_view domain);

}  // namespace gpupeak::collector
