// What a log says of its process as it begins.
#pragma once

#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// Why a log begins.
enum class Reason { kProgramStart, kFirstCudaCall, kCountedEnough, kAttached };

/// `forked`: its parent had been recorded, or could have been.
gpupeak_file_header describe_process(Reason reason, bool forked);
/// Defines the arguments, the folder and the machine.
void define_facts();

}  // namespace gpupeak::preload
