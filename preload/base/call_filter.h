// Says whether a filter of system calls (seccomp) that the program is about to install would hurt
// our own calls. We look at it before it holds, since asking may be forbidden later. HOOK-SAFE.
#pragma once

#include <linux/filter.h>

#include <cstddef>

namespace gpupeak::preload {

/// Whether the kernel can read memory of at least a word. Needs no call that filters end.
bool can_copy(const void* from, size_t bytes);
/// Whether the kernel can read the filter; if not, the kernel refuses it.
bool is_readable(const sock_fprog* filter);
/// Whether a call that recording needs would end the process, raise SIGSYS or be passed to another
/// process. A call that merely fails does no harm.
bool ends_our_calls(const sock_fprog& filter);
/// The same for the calls of the summary at the end, which another process makes.
bool ends_calls_of_exit_lines(const sock_fprog& filter);
/// The same for the calls when a request has failed or a program is started. These can be left out;
/// they are if has_given_up_lookups().
bool ends_calls_of_lookups(const sock_fprog& filter);
void give_up_lookups();
bool has_given_up_lookups();

}  // namespace gpupeak::preload
