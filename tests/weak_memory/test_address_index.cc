// Launches look addresses up without the lock while blocks come and go.
#include "base/lock.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "catch.h"
#include "explorer.h"
#include "stand_ins.h"
#include "track/address_index.cc"

namespace gpupeak::preload {
namespace {

ProcessPage g_page;
FutexLock g_lock;
AddressIndex g_index;
Use g_uses[4];
std::atomic<uint64_t> g_handed;

constexpr uint64_t kSixGiB = uint64_t{6} << 30, kMiB = 1 << 20;

void begin() {
  begin_process(g_page);
  begin_anew(g_lock);
  g_index.forget();
  g_index.begin(g_uses);
  for (Use& use : g_uses) begin_anew(use);
  g_handed = 0;
}

void add(uint32_t number, uint64_t at, uint64_t bytes) {
  const LockGuard guard(g_lock);
  g_uses[number].begin = at;
  g_uses[number].end = at + bytes;
  weak::require(g_index.add(g_uses[number]), "a block is not taken");
}
void remove(uint32_t number) {
  const LockGuard guard(g_lock);
  g_index.remove(g_uses[number]);
}

/// As the program does it: who has an address from another thread also knows what that did before.
void hand_over(uint64_t at) {
  g_handed.store(at, std::memory_order_release);
}
void launch() {
  const uint64_t at = g_handed.load(std::memory_order_acquire);
  if (at == 0) return;
  weak::require(g_index.may_hold(at + 512), "a live block is overlooked");
  const LockGuard guard(g_lock);
  const Use* const use = g_index.find(at + 512);
  weak::require(use != nullptr && use->begin == at, "another block is found");
}

}  // namespace
}  // namespace gpupeak::preload

TEST_CASE("a block whose address was handed over is found while others come and go", "[weak]") {
  using namespace gpupeak::preload;
  const auto allocates = [] { add(1, kSixGiB, 4096), hand_over(kSixGiB); };
  const auto looks = [] { g_index.may_hold(kSixGiB); };  // of any word that a kernel gets
  const auto lower = [] { add(2, kSixGiB - 64 * kMiB, kMiB), remove(2); };
  const auto beside = [] { add(3, kSixGiB + 8192, 4096), remove(3); };
  CHECK(weak::needs_each_order({{{allocates, launch, lower}, begin},
                                {{allocates, launch, beside}, begin},
                                {{allocates, looks}, begin}},
                               4000) == "");
}
