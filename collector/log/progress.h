// How functions that read a whole log tell how far they have come.
#pragma once

#include <cstdint>
#include <functional>

namespace gpupeak::collector {

/// Called now and then with bytes done and bytes in all. May be empty.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

}  // namespace gpupeak::collector
