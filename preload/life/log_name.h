// Where this process's log goes, and of which run it is.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// Whether this process's log goes among those of the children: `run` has started another process.
bool is_filed_as_child();
/// Whether those logs have a folder, which the first child makes. A pattern that is meant for all
/// processes has none.
bool has_folder_of_children();
/// The same number in all processes of a run. `run` gives it to the first process; without `run`,
/// the first one that records makes it up.
uint64_t run_id();
/// GPUPEAK_OUT, or GPUPEAK_CHILDREN_OUT if is_filed_as_child(), as an absolute path. Expands %n
/// name, %p pid, %r rank (if there is none, its dot goes too), %h host, %%.
void expand_out_pattern(Path& path);

// What a log says of its process as it begins.

/// Why a log begins.
enum class Reason { kProgramStart, kFirstCudaCall, kCountedEnough, kAttached };

/// `forked`: its parent had been recorded, or could have been.
gpupeak_file_header describe_process(Reason reason, bool forked);
/// Defines the arguments, the folder and the machine.
void define_facts();

}  // namespace gpupeak::preload
