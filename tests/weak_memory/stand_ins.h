// What the files under test use of others. Memory is the kernel's, and stays until unmap_all().
#pragma once

namespace gpupeak::preload {

/// For a scenario's setup: what was mapped in the execution before goes.
void unmap_all();

}  // namespace gpupeak::preload
