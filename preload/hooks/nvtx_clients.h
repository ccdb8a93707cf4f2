// NVTX's clients that have spoken already in a program that ran before this library came: each
// module that was built with NVTX 3 asks once for a tool, and has in its data what it goes by
// since.
#pragma once

namespace gpupeak::preload {

/// Of each that asked and found none: ours. Those that have not asked yet do so by getenv.
void take_over_nvtx_clients();
/// Those that call us have no tool any more.
void leave_nvtx_clients();

}  // namespace gpupeak::preload
