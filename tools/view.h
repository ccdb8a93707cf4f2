// What the verbs that show a view of one log share.
#pragma once

#include <functional>
#include <ostream>

#include "collector/analyze/profile.h"
#include "collector/text/text_format.h"
#include "commands.h"

namespace gpupeak::tools {

/// Replays the log and has `text` or `json` write to standard output. Returns the exit code.
int show_view(const ViewOptions& options,
              const std::function<void(collector::Profile&, std::ostream&,
                                       const collector::TextStyle&)>& text,
              const std::function<void(collector::Profile&, std::ostream&)>& json);

}  // namespace gpupeak::tools
