// Several processes taken together, for people and as JSON (docs/merge.md). `gpupeak merge` calls
// it.
#pragma once

#include <ostream>

#include "collector/merge/merged.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// However many processes there are: a screen, the largest of everything.
void write_merge(const Merged& merged, std::ostream& out, const TextStyle& style = {});
/// All of it.
void write_merge_json(const Merged& merged, std::ostream& out);

}  // namespace gpupeak::collector
