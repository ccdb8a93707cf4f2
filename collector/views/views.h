// Views of a log that has been replayed, each as text and as JSON. A verb or an option of `report`
// shows each; tools/views/ calls them.
#pragma once

#include <ostream>
#include <vector>

#include "collector/text/text_format.h"
#include "collector/timeline/last_use.h"
#include "collector/timeline/moment.h"
#include "collector/timeline/time_series.h"
#include "collector/views/heading.h"

namespace gpupeak::collector {

// `gpupeak report --byte-seconds`: what each site held, multiplied by how long.

/// A table for each sum. Its rows add up to the sum; the last one is for all others. In tables by
/// site the blocks of pools are rows of their own.
void write_byte_seconds(Profile& profile, const std::vector<HeldTime>& held, GroupBy by, size_t top,
                        std::ostream& out, const TextStyle& style);
void write_byte_seconds_json(Profile& profile, const std::vector<HeldTime>& held, GroupBy by,
                             size_t top, std::ostream& out);
void write_byte_seconds_csv(Profile& profile, const std::vector<HeldTime>& held, GroupBy by,
                            size_t top, std::ostream& out);

// `gpupeak flame`: the peak's call tree as a flame graph in text, the outermost call on top.

/// A call is as wide as its part of the peak. A call that is narrower than a column is not shown.
void write_flame(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                 const TextStyle& style);
/// The graph as d3-flame-graph reads it: name, value, children.
void write_flame_json(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out);

// `gpupeak held`: who held a sum at moments that are not its peak.

/// A table of sites for each moment; its rows add up to what was live then.
void write_held(Profile& profile, ScopeId scope, const std::vector<Moment>& moments, size_t top,
                std::ostream& out, const TextStyle& style);
void write_held_json(Profile& profile, ScopeId scope, const std::vector<Moment>& moments,
                     size_t top, std::ostream& out);

// `gpupeak report --last-use`: when the blocks that were live at the peak were used.

/// For each device the bytes by use, then the sites whose blocks were not in use around the peak,
/// largest first.
void write_last_use(Profile& profile, const LastUses& uses, size_t top, std::ostream& out,
                    const TextStyle& style);
/// gpupeak.last_use/1 (docs/json.md). All rows and the idle memory of pools add up to the peak.
void write_last_use_json(Profile& profile, const LastUses& uses, size_t top, std::ostream& out);

// `gpupeak leaks`: what was live when the process ended, by site, the devices first.

/// A table of `top` rows for `scope`. Empty: one for each device, for managed memory and for the
/// host.
void write_leaks(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                 const TextStyle& style);
void write_leaks_json(Profile& profile, const std::string& scope, size_t top, std::ostream& out);

// What the peak's memory was for, in two views beside each other, as MXNet's memory profiler had
// it: by layer (the phase in which it was allocated) and by data structure (the tag).

void write_tags(Profile& profile, const Held& held, size_t top, std::ostream& out,
                const TextStyle& style);
void write_tags_json(Profile& profile, const Held& held, size_t top, std::ostream& out);
/// "tag,MiB", a line for each tag, without a heading. Every byte of the peak is in one tag.
void write_tags_csv(Profile& profile, const Held& held, std::ostream& out);

// `gpupeak temporary`: sites whose blocks were freed at once; docs/metrics.md says how soon.

/// `scope`: empty: all memory that was measured.
void write_temporary(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                     const TextStyle& style);
void write_temporary_json(Profile& profile, const std::string& scope, size_t top,
                          std::ostream& out);

// `gpupeak tree`: who held the peak, from the outermost call inwards.

/// The rows below a row add up to it; calls that are not shown are one row, "N more". Where only
/// one call is shown and the rest is too small to be shown, the rest has no row.
void write_tree(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                const TextStyle& style);
void write_tree_json(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out);

}  // namespace gpupeak::collector
