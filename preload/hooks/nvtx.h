// NVTX as an adapter (adapters.cc).
#pragma once

namespace gpupeak::preload {

/// NVTX asks the environment which library to inject. It is answered in getenv and nowhere else, so
/// that neither the program's environment nor that of what it starts changes. Nullptr: another
/// variable, or NVTX is left alone.
const char* nvtx_variable(const char* name);

namespace nvtx {
struct Callbacks;
}
/// Our functions as a client's callbacks.
void attach_to_nvtx(const nvtx::Callbacks& callbacks);

}  // namespace gpupeak::preload
