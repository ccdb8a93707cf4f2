// What several processes had together, for people and as JSON (docs/merge.md). `gpupeak merge`
// calls it.
#pragma once

#include <ostream>

#include "collector/merge/merge.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// One screen for any number of processes: the largest of each kind.
void write_merge(const Merged& merged, std::ostream& out, const TextStyle& style = {});
/// Everything, as JSON.
void write_merge_json(const Merged& merged, std::ostream& out);

}  // namespace gpupeak::collector
