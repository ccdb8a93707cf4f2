// `gpupeak flame`: the peak's call tree as a flame graph in text, the outermost call on top.
#pragma once

#include "collector/views/heading.h"

namespace gpupeak::collector {

/// A call is as wide as its part of the peak. A call that is narrower than a column is not shown.
void write_flame(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                 const TextStyle& style);
/// The graph as d3-flame-graph reads it: name, value, children.
void write_flame_json(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out);

}  // namespace gpupeak::collector
