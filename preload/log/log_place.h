// Finds the name that a log gets, by what is there already. Nothing is ever replaced but an empty
// file, a log whose process has ended, and a log of this process from before exec that has no
// device events and is of less than a second. HOOK-SAFE.
#pragma once

#include <string_view>

#include "base/text.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// Creates a file with `header` and an empty counters page. Only this user may read it, unless
/// GPUPEAK_LOG_MODE says otherwise. Its name is `wanted`, or one beside it if another running
/// program's log or another user's file is there: a.gplog, a.exec2.gplog for the program that the
/// same process went on with, a.<pid>.gplog for another process. `path`: the name that it got.
/// Returns a descriptor, open for reading and writing, or -errno: -EEXIST for a file that is no
/// log, -ENODEV for what is no file, -ELOOP for a symbolic link.
long create_log(std::string_view wanted, const gpupeak_file_header& header, Path& path);

/// Makes the folder of a file if it is missing. Returns 0, or -errno. If there is one, it must be
/// this user's folder, no link, and not writable for everybody; else -EPERM.
long make_own_folder(std::string_view path);

/// Whether the wanted name was left alone because the log there is of another container or machine,
/// and its process may still run.
bool log_of_elsewhere_is_in_the_way();

/// Notes in the header on which machine, since which boot and in which PID namespace we run.
void describe_place(gpupeak_file_header& header);

}  // namespace gpupeak::preload
