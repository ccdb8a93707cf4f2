// What the peak's memory was for, in two views beside each other: by layer, that is the phase it
// was allocated in, and by data structure, that is its tag. As MXNet's memory profiler had it.
#pragma once

#include <ostream>

#include "collector/analyze/profile.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

void write_tags(Profile& profile, ScopeId scope, size_t top, std::ostream& out,
                const TextStyle& style);
void write_tags_json(Profile& profile, ScopeId scope, size_t top, std::ostream& out);
/// "tag,MiB", a line a tag, without a heading; every byte of the peak is in one tag.
void write_tags_csv(Profile& profile, ScopeId scope, std::ostream& out);

}  // namespace gpupeak::collector
