// `gpupeak tree`: who held the peak, from the outermost call inwards.
#pragma once

#include "collector/views/heading.h"

namespace gpupeak::collector {

/// The rows below a row add up to it; calls that are not shown are one row, "N more". Where only
/// one call is shown and the rest is too small to be shown, the rest has no row.
void write_tree(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                const TextStyle& style);
void write_tree_json(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out);

}  // namespace gpupeak::collector
