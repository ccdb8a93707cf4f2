// Where this process's log goes, and of which run it is.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/text.h"

namespace gpupeak::preload {

std::string_view host_name();
/// Whether this process has its log among those of the children: `run` started another one.
bool is_filed_as_child();
/// Which the first of them makes. A pattern that is meant for all processes has no such folder.
bool has_folder_of_children();
/// What the processes of a run have in common. `run` gives it to the first; without it the first
/// that records makes it up.
uint64_t run_id();
/// GPUPEAK_OUT with %n name, %p pid, %r rank (none: its dot goes too), %h host, %% expanded;
/// absolute.
void expand_out_pattern(Path& path);

}  // namespace gpupeak::preload
