// Which words of a launch's parameters may be addresses: the driver says of each function where its
// parameters lie and how large they are, once a function. Called after the real launch has
// succeeded, so that the driver has read all that is read here. HOOK-SAFE, outside any HookScope.
//
//   kernel(float* out, Sizes by_value, int n)   parameters of 8, 24 and 4 bytes, at 0, 8 and 32
//   → one word of the first, three of the second, none of the third
#pragma once

#include <cuda.h>

#include "track/last_use.h"

namespace gpupeak::preload {

/// `parameters`, `extra`: as cuLaunchKernel has them. False: the driver has yet to be asked, or
/// there are parameters, but none are given.
bool look_at_parameters(const void* function, void* const* parameters, void* const* extra,
                        SeenWords& seen);
/// Asks the driver, and looks. False: it does not tell. Inside a DriverScope.
bool ask_and_look_at_parameters(const void* function, void* const* parameters, void* const* extra,
                                SeenWords& seen);

/// Functions are gone, and their addresses may come again.
void forget_parameters();

}  // namespace gpupeak::preload
