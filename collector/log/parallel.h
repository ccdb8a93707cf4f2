// Work that several processors can share, since its parts do not ask each other anything: columns
// of a packed log, names of addresses, titles of stacks. What comes out does not depend on how many
// there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace gpupeak::collector {

/// How many this process may use.
size_t usable_processors();

/// Processors that a replay keeps busy: its own, decoding ahead, and counting behind. What is done
/// beside it is done where there are more.
inline constexpr size_t kReplayThreads = 3;

/// Calls work(begin, end) for pieces of at most `piece` of [0, count), on as many threads as are
/// worth it, at most `most_threads`, the caller's among them, and returns when all is done. Throws
/// what the first piece that failed threw; later ones may then be left out.
void in_parallel(size_t count, size_t piece, const std::function<void(size_t, size_t)>& work,
                 size_t most_threads = SIZE_MAX);

}  // namespace gpupeak::collector
