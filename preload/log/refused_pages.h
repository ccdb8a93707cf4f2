// Pages of the log that the file system refused to write once more. A file system that copies what
// it writes (Btrfs) needs new room for each page, and a quota may refuse that. Then memory with the
// same bytes takes the page's place. Records go into this memory, as if it were the file, and it is
// written to the file when there is room again. HOOK-SAFE.
//
//   chunk   │ page │ page │ page │      file: the bytes of before
//              ▲ refused: memory of our own, written to the file by write_refused_pages()
#pragma once

#include <cstddef>

namespace gpupeak::preload {

/// Called by the handler of a SIGBUS that a store to `address` of the log raised. True: there is
/// memory now. False: the file does not have the page, or too many are refused already.
bool keep_refused_page(void* address);
/// Writes them into the log's file. False: not all of them are in it.
bool write_refused_pages();
/// Call it before [begin, begin + bytes) of the log is unmapped: keeps what is not in the file.
void keep_refused_pages_of(const void* begin, size_t bytes);
/// For a forked child, or for a new log.
void forget_refused_pages();

}  // namespace gpupeak::preload
