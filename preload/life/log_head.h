// What a log says of its process as it begins.
#pragma once

#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// What a log's start may find.
enum class Reason { kProgramStart, kFirstCudaCall, kCountedEnough, kAttached };

/// `forked`: its parent had been recorded, or could have been.
gpupeak_file_header describe_process(Reason reason, bool forked);
/// Arguments, folder, machine.
void define_facts();

}  // namespace gpupeak::preload
