// Shares work out among several processors. The parts of the work must not need each other: columns
// of a packed log, names of addresses, titles of stacks. The result does not depend on how many
// processors there are.
#pragma once

#include <cstddef>
#include <functional>

namespace gpupeak::collector {

/// How many processors this process may use.
size_t usable_processors();

/// Threads that a replay keeps busy: the caller's, one that decodes ahead, one that counts behind.
/// Other work beside it is done by the processors that are left.
inline constexpr size_t kReplayThreads = 3;

/// Calls work(begin, end) for all pieces of [0, count), each of at most `piece`, and returns when
/// all are done. It uses as many threads as are worth it, at most `most_threads`, with the
/// caller's. Throws what the first piece that failed threw; pieces behind it may then be left out.
void in_parallel(size_t count, size_t piece, const std::function<void(size_t, size_t)>& work,
                 size_t most_threads = SIZE_MAX);

}  // namespace gpupeak::collector
