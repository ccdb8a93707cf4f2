// `gpupeak report --last-use`: when the blocks that were live at the peak were used.
#pragma once

#include "collector/timeline/last_use.h"
#include "collector/views/heading.h"

namespace gpupeak::collector {

/// For each device the bytes by use, then the sites whose blocks were not in use around the peak,
/// largest first.
void write_last_use(Profile& profile, const LastUses& uses, size_t top, std::ostream& out,
                    const TextStyle& style);
/// gpupeak.last_use/1 (docs/json.md). All rows and the idle memory of pools add up to the peak.
void write_last_use_json(Profile& profile, const LastUses& uses, size_t top, std::ostream& out);

}  // namespace gpupeak::collector
