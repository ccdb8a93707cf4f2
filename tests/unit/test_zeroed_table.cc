// Memory whose pages a thread has the kernel bring in while the owner writes there.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "catch.h"
#include "collector/replay/zeroed_table.h"

using namespace gpupeak::collector;

namespace {

constexpr size_t kBytes = size_t{64} << 20;

size_t pages_in_memory(void* from, size_t bytes) {
  std::vector<unsigned char> resident(bytes / static_cast<size_t>(getpagesize()));
  REQUIRE(mincore(from, bytes, resident.data()) == 0);
  return static_cast<size_t>(
      std::count_if(resident.begin(), resident.end(), [](unsigned char of) { return of & 1; }));
}

}  // namespace

TEST_CASE("zeroed_table: what is written while pages come stays, all else is zero", "[collector]") {
  ZeroedMemory moved(kBytes, true);
  const ZeroedMemory memory(std::move(moved));
  auto* const words = static_cast<uint64_t*>(memory.data());
  constexpr size_t kWords = kBytes / sizeof *words;
  constexpr size_t kStep = 4099;
  for (size_t i = 0; i < kWords; i += kStep) words[i] = i + 1;
  size_t wrong = 0;
  for (size_t i = 0; i < kWords; ++i) wrong += words[i] != (i % kStep == 0 ? i + 1 : 0);
  CHECK(wrong == 0);
}

TEST_CASE("zeroed_table: nothing is touched where the table has been", "[collector]") {
  for (int round = 0; round < 20; ++round) {
    std::optional<ZeroedMemory> memory(std::in_place, kBytes, true);
    void* const place = memory->data();
    memory.reset();
    // Somebody else's memory comes to lie there.
    void* const other = mmap(place, kBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (other == MAP_FAILED) continue;  // it already does
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(pages_in_memory(other, kBytes) == 0);
    munmap(other, kBytes);
  }
}
