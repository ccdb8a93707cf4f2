// Threads map memory of cuMemCreate, give it up and unmap it at once: it counts as long as the
// driver has it, and no longer.
#include "calls/virtual_memory.h"
#include "catch.h"
#include "explorer.h"
#include "stand_ins.h"
#include "track/virtual_memory.cc"

namespace gpupeak::preload {
namespace {

ProcessPage g_page;
constexpr CUmemGenericAllocationHandle kHandle = 5;
constexpr CUdeviceptr kFirst = 1 << 20, kSecond = 2 << 20;
constexpr uint64_t kBytes = 64 << 10;

/// What the driver knows. It orders its own calls, and nothing of ours.
struct Driver {
  int references = 1;
  bool refuses = false, refuses_unmap = false;
  bool maps[3] = {};
  std::atomic<int> passes{0};

  void __attribute__((noinline)) pass() {
    for (int i = 0; i < 2; ++i) passes.load(std::memory_order_relaxed);
  }
  bool __attribute__((no_sanitize("thread"))) map(CUdeviceptr at) {
    return references > 0 && !refuses && (maps[at >> 20] = true);
  }
  bool __attribute__((no_sanitize("thread"))) release() {
    return references > 0 && references-- > 0;
  }
  bool __attribute__((no_sanitize("thread"))) unmap(CUdeviceptr at) {
    return maps[at >> 20] && !refuses_unmap && !(maps[at >> 20] = false);
  }
  bool __attribute__((no_sanitize("thread"))) retain(CUdeviceptr at) {
    return maps[at >> 20] && ++references > 0;
  }
  bool has_memory() const { return references > 0 || maps[1] || maps[2]; }
};
Driver g_driver;

uint32_t g_api = 1;
const ApiCall g_call{.name = "", .string_id = &g_api, .caller = {}};

template <typename Does>
CUresult in_driver(Does does) {
  g_driver.pass();
  const bool done = does();
  g_driver.pass();
  return done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void begin() {
  begin_process(g_page);
  abandon_slots();
  g_page.generation = g_page.recording = 1;
  begin_anew(g_driver);
  begin_anew(g_book.lock);
  g_book.blocks.forget();
  forget_virtual_memory();
  g_vmm.handles.insert(handle_key(kHandle), {.references = 1, .block = {}});
  DeviceBlock block;
  block.id = 1;
  block.bytes = kBytes;
  g_book.blocks.insert(block_key(kHandle), block);
}
void begin_refusing() {
  begin();
  g_driver.refuses = true;
}
void begin_with_two_references() {
  begin();
  g_driver.references = 2;
  ++g_vmm.handles.find(handle_key(kHandle))->references;
}

void map(CUdeviceptr at) {
  calls::mem_map(
      g_call, [at](auto...) { return in_driver([at] { return g_driver.map(at); }); }, at, kBytes, 0,
      kHandle, 0);
}
void release() {
  calls::mem_release(
      g_call, [](auto...) { return in_driver([] { return g_driver.release(); }); }, kHandle);
}
void unmap(CUdeviceptr at) {
  calls::mem_unmap(
      g_call, [at](auto...) { return in_driver([at] { return g_driver.unmap(at); }); }, at, kBytes);
}

void retain() {
  CUmemGenericAllocationHandle got = kHandle;
  calls::mem_retain_handle(
      g_call, [](auto...) { return in_driver([] { return g_driver.retain(kFirst); }); }, &got,
      reinterpret_cast<void*>(kFirst + kBytes - 1));
}

void begin_mapped() {
  begin();
  g_driver.maps[kFirst >> 20] = true;
  g_vmm.handles.find(handle_key(kHandle))->mappings = 1;
  g_vmm.mappings.insert(kFirst, {.bytes = kBytes, .handle = kHandle});
}
void begin_mapped_alone() {
  begin_mapped();
  g_driver.references = 0;
  g_vmm.handles.find(handle_key(kHandle))->references = 0;
}
void begin_refusing_to_unmap() {
  begin_mapped();
  g_driver.refuses_unmap = true;
}

void counts_what_is_there() {
  const bool counted = g_book.blocks.find(block_key(kHandle)) != nullptr;
  weak::require(counted || !g_driver.has_memory(), "memory of the driver is not counted");
  weak::require(!counted || g_driver.has_memory(), "memory that is gone is counted");
  weak::require(counted || g_vmm.handles.find(handle_key(kHandle)) == nullptr,
                "a handle that stands for nothing is kept");
}

}  // namespace

// What the files above use of others.

constinit DeviceBook g_book;
constinit std::atomic<bool> g_hears_loader{false}, g_watches_uses{false};
constinit std::atomic<uint32_t> g_unread_peaks{0};
uint64_t g_read_at[GPUPEAK_LOG_MAX_DEVICES];
void put_back_block(uint64_t key, const DeviceBlock& block) {
  g_book.blocks.insert(key, block);
}
void book_is_out_of_reach() {
  weak::require(false, "the book's lock is not free in time");
}
void release_left_locks() {}
bool was_left_by_longjmp(uintptr_t, uintptr_t) {
  return false;
}
bool start_for_cuda() {
  return false;
}
bool came_late() {
  return false;
}
uint32_t capture_stack(StackCache&, const CallerFrame&) {
  return 0;
}
uint32_t new_api(const ApiCall&) {
  return 1;
}
void device_unknown_freed(const ApiCall&, uint64_t, uint64_t) {}
void mapped_use_began(uint64_t, uint64_t, uint64_t) {}
void mapped_use_ended(uint64_t) {}
void use_ended(uint32_t) {}
void read_unread_peaks_slowly() {}

}  // namespace gpupeak::preload

TEST_CASE("memory that is mapped in one thread and released in another counts as it lives",
          "[weak]") {
  using namespace gpupeak::preload;
  const auto maps = [] { map(kFirst); };
  const auto maps_and_unmaps = [] { map(kSecond), unmap(kSecond); };
  const auto releases = [] { release(); };
  const auto check = [](const weak::Scenario& scenario) {
    CHECK(weak::explore(scenario, 4000).failure == "");
  };
  check({{maps, releases}, begin, counts_what_is_there});
  check({{maps_and_unmaps, releases}, begin, counts_what_is_there});
  check({{maps, maps_and_unmaps, releases}, begin, counts_what_is_there});
  check({{maps, releases}, begin_refusing, counts_what_is_there});
  check({{maps, releases, releases}, begin_with_two_references, counts_what_is_there});
  const auto unmaps = [] { unmap(kFirst); };
  const auto unmaps_and_maps = [] { unmap(kFirst), map(kFirst), unmap(kFirst); };
  const auto retains = [] { retain(); };
  const auto retains_and_releases = [] { retain(), release(); };
  check({{unmaps, releases}, begin_mapped, counts_what_is_there});
  check({{unmaps, releases}, begin_refusing_to_unmap, counts_what_is_there});
  check({{unmaps_and_maps, releases}, begin_mapped, counts_what_is_there});
  check({{retains, unmaps}, begin_mapped_alone, counts_what_is_there});
  check({{retains_and_releases, unmaps}, begin_mapped_alone, counts_what_is_there});
  check({{retains, unmaps, releases}, begin_refusing_to_unmap, counts_what_is_there});
}
