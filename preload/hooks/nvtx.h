// NVTX as an adapter (adapters.cc).
#pragma once

namespace gpupeak::preload {

/// NVTX asks by getenv which library to inject. We answer in getenv alone, so that the environment
/// of the program and of its children does not change. nullptr: another variable, or NVTX is left
/// alone.
const char* nvtx_variable(const char* name);

namespace nvtx {
struct Callbacks;
}
/// Makes our functions a client's callbacks.
void attach_to_nvtx(const nvtx::Callbacks& callbacks);

}  // namespace gpupeak::preload
