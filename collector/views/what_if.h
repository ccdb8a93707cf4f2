// `gpupeak whatif`: what a run's memory would have been with a change, and which settings would
// lower it.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "collector/summary/what_if.h"
#include "collector/text/text_format.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// A table for each sum that had a peak.
void write_what_if(const WhatIf& what_if, std::ostream& out, const TextStyle& style);
/// A line for each of the first `rows` changes, in their order. Writes nothing if there are none.
void write_lowering(const std::vector<WhatIf>& all, size_t rows, std::ostream& out,
                    const TextStyle& style);
/// gpupeak.lowering/1: a list of gpupeak.whatif/1.
void write_lowering_json(const std::vector<WhatIf>& all, std::ostream& out);
/// gpupeak.whatif/1; docs/json.md.
Json what_if_json(const WhatIf& what_if);
void write_what_if_json(const WhatIf& what_if, std::ostream& out);

/// A page about all changes, each with its curves over time (WithCurves). Throws as write_html()
/// does.
void write_what_if_page(const std::vector<WhatIf>& all, const std::string& tool_version,
                        std::ostream& out);

}  // namespace gpupeak::collector
