// What the peak's memory was for, in two views beside each other, as MXNet's memory profiler had
// it: by layer (the phase in which it was allocated) and by data structure (the tag).
#pragma once

#include <ostream>

#include "collector/text/text_format.h"
#include "collector/timeline/moment.h"

namespace gpupeak::collector {

void write_tags(Profile& profile, const Held& held, size_t top, std::ostream& out,
                const TextStyle& style);
void write_tags_json(Profile& profile, const Held& held, size_t top, std::ostream& out);
/// "tag,MiB", a line for each tag, without a heading. Every byte of the peak is in one tag.
void write_tags_csv(Profile& profile, const Held& held, std::ostream& out);

}  // namespace gpupeak::collector
