// The log's pages are the file's. If somebody shortens the file, or the disk refuses a page that
// was written before, a store into the log raises SIGBUS. That may cost the rest of the log, but
// never the program. So SIGBUS has a handler of ours. If our own code could not store, or could not
// read the counters page, the handler puts memory there, with the page's bytes if the file still
// has them. For every other SIGBUS it takes the program's own action, as if we were not there.
// HOOK-SAFE.
#pragma once

#include <csignal>
#include <cstddef>

namespace gpupeak::preload {

// Pages of the log that the file system refused to write once more. A file system that copies what
// it writes (Btrfs) needs new room for each page, and a quota may refuse that. Then memory with the
// same bytes takes the page's place. Records go into this memory, as if it were the file, and it is
// written to the file when there is room again. HOOK-SAFE.
//
//   chunk   │ page │ page │ page │      file: the bytes of before
//              ▲ refused: memory of our own, written to the file by write_refused_pages()

/// Called by the handler of a SIGBUS that a store to `address` of the log raised. True: there is
/// memory now. False: the file does not have the page, or too many are refused already.
bool keep_refused_page(void* address);
/// Writes them into the log's file. False: not all of them are in it.
bool write_refused_pages();
/// Call it before [begin, begin + bytes) of the log is unmapped: keeps what is not in the file.
void keep_refused_pages_of(const void* begin, size_t bytes);
/// For a forked child, or for a new log.
void forget_refused_pages();

/// Guards SIGBUS from here on. The handler calls `on_cut` each time that a page of the log is gone.
void guard_log(void (*on_cut)());

/// Gives the program's own action back to the kernel, unless the program has set another one
/// meanwhile in a way that we do not see.
void unguard_log();

/// sigaction for SIGBUS, as the program calls it: sets and returns the program's own action.
int program_action(const struct sigaction* action, struct sigaction* old);

}  // namespace gpupeak::preload
