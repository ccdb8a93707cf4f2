// Where a log may lie: the name that it gets, and what stands there already. Nothing but an empty
// file or a log whose process has ended is ever replaced. HOOK-SAFE.
#pragma once

#include <string_view>

#include "base/text.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// A new file with `header` and an empty counters page, which only this user may read unless
/// GPUPEAK_LOG_MODE says otherwise, under `wanted` or a name beside it if another running program's
/// log or another user's file is there: a.gplog, a.exec2.gplog for the program that the same
/// process went on with, a.<pid>.gplog for another process. Returns a descriptor, open for reading
/// and writing, or -errno: -EEXIST for a file that is no log, -ENODEV for what is no file,
/// -ELOOP for a symbolic link. `path` is the name that it got.
long create_log(std::string_view wanted, const gpupeak_file_header& header, Path& path);

/// Makes the folder of a file, unless it is there: 0, or -errno. What is there must be a folder of
/// this user's, no link, that not everybody may write into: -EPERM.
long make_own_folder(std::string_view path);

/// Whether the wanted name was left alone since a log lies there whose process, of another
/// container or machine, may still run.
bool log_of_elsewhere_is_in_the_way();

/// Notes in the header on which machine, since which boot and in which PID namespace we run.
void describe_place(gpupeak_file_header& header);

}  // namespace gpupeak::preload
