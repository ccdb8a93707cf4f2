// NVTX's clients in an attached program. Each module that was built with NVTX 3 asks once for a
// tool, and keeps the answer in its data. This is for clients that have asked already.
#pragma once

namespace gpupeak::preload {

/// Gives our tool to each client that asked and found none. Clients that have not asked yet do so
/// by getenv.
void take_over_nvtx_clients();
/// Clients that call us have no tool from here on.
void leave_nvtx_clients();

}  // namespace gpupeak::preload
