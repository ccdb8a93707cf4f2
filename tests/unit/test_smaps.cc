// What a mapping is, by its line of /proc/PID/smaps and its first word.
#include "catch.h"
#include "gpupeak/smaps.h"

using gpupeak::Mapping;
using gpupeak::ResidentKind;

namespace {

constexpr uint64_t kArena = gpupeak::smaps::kArena, kBegin = 0x7f00'0000'0000;
constexpr uint64_t kState = kBegin + 0x30;  // malloc's first word of an arena
static_assert(kBegin % kArena == 0);

Mapping anonymous(uint64_t begin, uint64_t bytes) {
  return {begin, begin + bytes, true, true, false, false, ""};
}

ResidentKind kind_with_word(const Mapping& mapping, uint64_t first_word,
                            const Mapping& before = {}) {
  return gpupeak::smaps::kind_of(mapping, before, [&](uint64_t address, uint64_t& word) {
    CHECK(address == mapping.begin);
    word = first_word;
    return true;
  });
}

ResidentKind kind_unread(const Mapping& mapping) {
  return gpupeak::smaps::kind_of(mapping, Mapping{}, [](uint64_t, uint64_t&) { return false; });
}

}  // namespace

TEST_CASE("an arena of malloc's is told by its first word, also where several are one mapping") {
  for (const uint64_t bytes : {kArena / 64, kArena, 3 * kArena}) {
    CHECK(kind_with_word(anonymous(kBegin, bytes), kState) == ResidentKind::kMalloc);
    CHECK(kind_with_word(anonymous(kBegin, bytes), 0) == ResidentKind::kAnonymous);
    CHECK(kind_with_word(anonymous(kBegin, bytes), kBegin) == ResidentKind::kAnonymous);
  }
  CHECK(kind_with_word(anonymous(kBegin + kArena / 2, kArena / 64), kState) ==
        ResidentKind::kAnonymous);
}

TEST_CASE(
    "where nobody may read the first word, what begins like an arena and is no larger is one") {
  CHECK(kind_unread(anonymous(kBegin, kArena)) == ResidentKind::kMalloc);
  CHECK(kind_unread(anonymous(kBegin, kArena + 4096)) == ResidentKind::kAnonymous);
  CHECK(kind_unread(anonymous(kBegin + 4096, kArena / 64)) == ResidentKind::kAnonymous);
}

TEST_CASE("a thread's stack behind its guard is told from an arena, wherever it begins") {
  Mapping guard = anonymous(kBegin - 4096, 4096);
  guard.is_readable = guard.is_writable = false;
  CHECK(kind_with_word(anonymous(kBegin, kArena / 8), 0, guard) == ResidentKind::kStacks);
  CHECK(kind_with_word(anonymous(kBegin, kArena / 8), kState, guard) == ResidentKind::kMalloc);
}
