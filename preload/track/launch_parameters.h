// Finds the words of a launch's parameters that may be addresses. The driver is asked once for each
// function where its parameters lie and how large they are. Called after the real launch succeeded:
// then the driver has read the same memory as is read here. HOOK-SAFE, outside any HookScope.
//
//   kernel(float* out, Sizes by_value, int n)   parameters of 8, 24 and 4 bytes, at 0, 8 and 32
//   → one word of the first, three words of the second, none of the third
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "track/driver.h"
#include "track/last_use.h"

namespace gpupeak::preload {

// Tensor maps (CUtensorMap). The driver makes one of an address, and a kernel gets it by value: 128
// bytes that only the driver can read. The maps that the driver made are kept by their bytes, as
// many as fit. So the address is known when a map is found among a launch's parameters. HOOK-SAFE.

/// The driver made a map of the memory at `address`, and wrote it to `map`.
void note_tensor_map(const void* map, uint64_t address);

/// `parameters`, `extra`: as cuLaunchKernel has them. False: the driver has not been asked about
/// the function, or the function has parameters but the call gave none. `may_leave_out`: nothing is
/// looked at if launches have taken their part of the time.
bool look_at_parameters(const void* function, void* const* parameters, void* const* extra,
                        SeenWords& seen, bool may_leave_out);
/// Asks the driver first. False: the driver does not say, or as above. Inside a DriverScope.
/// `call`: the launch; nullptr: where it came from is not known.
bool ask_and_look_at_parameters(const void* function, void* const* parameters, void* const* extra,
                                SeenWords& seen, const ApiCall* call);
/// Asks the driver about a function, if that was not done. Inside a DriverScope.
void learn_parameters(const void* function, const ApiCall* call);

/// Functions are unloaded: others may get their addresses.
void forget_parameters();

}  // namespace gpupeak::preload
