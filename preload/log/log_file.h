// The log's file, which grows without a descriptor: the program never finds a file of ours among
// its own, and setuid, chroot or a removed folder do not end the recording. HOOK-SAFE.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// A chunk that is mapped and ready to be written behind its header.
struct Chunk {
  uint8_t* begin = nullptr;  ///< the header; nullptr: there is none
  size_t bytes = 0;
};

/// Creates the file with its header and counters page. `header` is complete but for cookie,
/// place and offsets. Returns 0, or -errno. `path` must be absolute: the program may change its
/// folder.
long open_log_file(std::string_view path, gpupeak_file_header header);
/// Opens the log again for reading and writing, if its path still leads to the file that we made;
/// else -errno. `status`: from fstat. Callable anywhere.
long open_log_again(struct stat& status);
/// How much of the log is mapped.
size_t mapped_log_bytes();
/// The path of the open log; empty if none.
std::string_view log_path();

/// A fresh chunk with its header written; {nullptr} if the log cannot grow now (quality DISK_FULL;
/// every record that finds no room is then counted as dropped). A disk, a quota, memory or the
/// number of mappings may be short for a moment only: we try again, after rests of 2 ms to 1 s.
Chunk new_chunk(size_t bytes, gpupeak_chunk_kind kind, uint32_t slot, uint64_t sequence,
                uint32_t tid);
/// Whether the last try to get a chunk failed. Callable anywhere, as the functions below.
bool log_is_short();
/// Whether the last try failed, and it is too early for another one. Reads the clock.
bool log_rests();
/// From when to when no chunk could be had (CLOCK_MONOTONIC).
struct LogGap {
  uint64_t begin_ns = 0, end_ns = 0;
};
/// Takes the gap that has just ended; each gap is given out once. With `at_end`, also takes a gap
/// that has not ended.
bool take_log_gap(LogGap& gap, bool at_end = false);
/// At the log's end: the next try to grow comes at once, without the usual rest.
void end_log_rest();
/// The best size of the next chunk, at most `wanted` bytes. It is small near GPUPEAK_LOG_MAX and
/// beyond it, so that what threads do not fill of their chunks does not add up.
size_t fitting_chunk_bytes(size_t wanted);

/// Unmaps a full chunk. Its bytes stay in the file.
void retire_chunk(const Chunk& chunk);

/// Call it when a page of the file is gone: somebody has cut the file, or the file system refused
/// to write the page again. Nothing more is logged.
void note_log_was_cut();
/// Whether that has happened: all that was logged since is lost.
bool log_was_cut();
/// After that: whether the file still has its length, so that it was not cut. A file system that
/// copies what it writes (Btrfs) needs new room for each page, and a quota may refuse that.
bool log_is_as_long_as_it_was();
/// Gives back what was allocated ahead at the file's end. The log stays open.
void trim_log_file();
/// Call it when the log has ended, so that another one may be opened.
void leave_log_file();
/// In a forked child: forget the parent's file without touching it.
void abandon_log_file();

// Finds the name that a log gets, by what is there already. Nothing is ever replaced but an empty
// file, a log whose process has ended, and a log of this process from before exec that has no
// device events and is of less than a second. HOOK-SAFE.

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

// The log's pages are the file's. If somebody shortens the file, or the disk refuses a page that
// was written before, a store into the log raises SIGBUS. That costs the rest of the log, but never
// the program. So SIGBUS has a handler of ours. If our own code could not store, or could not read
// the counters page, the handler puts empty memory there. For every other SIGBUS it takes the
// program's own action, as if we were not there. HOOK-SAFE.

/// Guards SIGBUS from here on. The handler calls `on_cut` each time that a page of the log is gone.
void guard_log(void (*on_cut)());

/// Gives the program's own action back to the kernel, unless the program has set another one
/// meanwhile in a way that we do not see.
void unguard_log();

/// sigaction for SIGBUS, as the program calls it: sets and returns the program's own action.
int program_action(const struct sigaction* action, struct sigaction* old);

}  // namespace gpupeak::preload
