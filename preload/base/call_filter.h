// What a filter of system calls (seccomp), which the program is about to put upon itself, means for
// ours: looked at before it holds, since afterwards to ask may be forbidden too. HOOK-SAFE.
#pragma once

#include <linux/filter.h>

namespace gpupeak::preload {

/// Whether the kernel can read it; else it refuses it.
bool is_readable(const sock_fprog* filter);
/// Whether the process would be ended, its handler of SIGSYS be called or another process be asked
/// for a call that recording takes. One that merely fails does no harm.
bool ends_our_calls(const sock_fprog& filter);
/// The same for what the summary at the end takes, which another process makes.
bool ends_calls_of_exit_lines(const sock_fprog& filter);
/// The same for what is asked where a request has failed or a program is started; these can be left
/// out, and are if has_given_up_lookups().
bool ends_calls_of_lookups(const sock_fprog& filter);
void give_up_lookups();
bool has_given_up_lookups();

}  // namespace gpupeak::preload
