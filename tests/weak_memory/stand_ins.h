// What the files under test use of others. Memory is the kernel's, and stays until unmap_all().
#pragma once

#include "base/process_state.h"

namespace gpupeak::preload {

/// For a scenario's setup: what was mapped in the execution before goes.
void unmap_all();
/// For a scenario's setup: a process begins, whose threads have what is theirs alone.
void begin_process(ProcessPage& page);

}  // namespace gpupeak::preload
