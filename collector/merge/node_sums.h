// Adds up what the processes of a node held at once: of each GPU, of all GPUs, of the host.
#pragma once

#include "collector/merge/merged.h"
#include "collector/merge/nodes.h"

namespace gpupeak::collector {

/// Fills the sums of all nodes. GPUs are told apart by their UUIDs, since processes may number them
/// differently.
void add_node_sums(Merged& merged, const JobClock& clock);

}  // namespace gpupeak::collector
