// Blocks get marks while other threads make the table, its leaves, and go over to a sample.
#include "catch.h"
#include "explorer.h"
#include "stand_ins.h"
#include "thread/heap_sample.cc"

namespace gpupeak::preload {
namespace {

ProcessPage g_page;
std::atomic<const void*> g_handed;
const void* const kBlock = reinterpret_cast<const void*>(uint64_t{5} << 32);
const void* const kOther = reinterpret_cast<const void*>((uint64_t{5} << 32) + 8);

void begin() {
  unmap_all();
  g_mark_leaves = nullptr;
  g_handed = nullptr;
  new (&g_page) ProcessPage{};
  g_page.host_mode = HostMode::kFull;
}
void begin_marked() {
  begin();
  begin_marks();
}

}  // namespace

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

TEST_CASE("marks are seen by who sees that there are marks, and by who gets their block",
          "[weak]") {
  const auto goes_over = [] { go_over_to_sample(g_page, 0); };
  const auto allocates = [] {
    if (marked_in(g_page) == Marked::kUnlogged) mark_block(kBlock);
  };
  const auto looks = [] {
    for (int i = 0; i < 10 && host_mode_of(g_page) != HostMode::kSampled; ++i) {
      if (i == 9) return;
    }
    weak::require(marked_in(g_page) == Marked::kUnlogged, "a sample without marks");
  };
  const auto asks = [] {
    for (int i = 0; i < 5; ++i) weak::require(!is_marked(kOther), "a mark of nobody");
  };
  const auto hands_over = [] {
    mark_block(kBlock);
    g_handed.store(kBlock, std::memory_order_release);
  };
  const auto frees = [] {
    if (g_handed.load(std::memory_order_acquire) == nullptr) return;
    weak::require(is_marked(kBlock), "the mark is missing");
    weak::require(unmark_block(kBlock) && !is_marked(kBlock), "the mark stays");
  };
  const auto makes_another = [] {
    mark_block(kOther);
    weak::require(is_marked(kOther) && unmark_block(kOther), "the other's mark is missing");
  };
  CHECK(weak::needs_each_order({{{goes_over, allocates, asks}, begin},
                                {{goes_over, looks}, begin},
                                {{hands_over, frees, makes_another}, begin_marked}},
                               1500) == "");
}
