// Pages of the log that the file system would not have written once more. One that copies what it
// writes (Btrfs) wants new room for each, and a quota may refuse that. Then memory with the same
// bytes takes the page's place, is written on as if it were the file, and goes into the file when
// that has room again. HOOK-SAFE.
//
//   chunk   │ page │ page │ page │      file: the bytes of before
//              ▲ refused: memory of our own, written to the file by write_refused_pages()
#pragma once

#include <cstddef>

namespace gpupeak::preload {

/// From the handler of a SIGBUS that a store to `address` of the log raised. True: memory stands
/// there now. False: the file does not have the page, or too many are refused already.
bool keep_refused_page(void* address);
/// Into the log's file; nothing to do where none was refused. False: they are not all in it.
bool write_refused_pages();
/// Before [begin, begin + bytes) of the log is unmapped: what is not in the file is kept elsewhere.
void keep_refused_pages_of(const void* begin, size_t bytes);
/// In a forked child, or for a new log.
void forget_refused_pages();

}  // namespace gpupeak::preload
