// Several processes taken together, for people and as JSON (docs/merge.md). `gpupeak merge` calls
// it.
#pragma once

#include <ostream>

#include "collector/analyze/process_merge.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

void write_merge(const Merged& merged, std::ostream& out, const TextStyle& style = {});
void write_merge_json(const Merged& merged, std::ostream& out);

}  // namespace gpupeak::collector
