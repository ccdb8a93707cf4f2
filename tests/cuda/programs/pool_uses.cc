// Uses of blocks that arenas share out: PyTorch's, which come and go at random between launches,
// and those of an arena of the program's own, which lie beside them and inside of each other. The
// program keeps its own book, and prints it: check_pool_uses.py compares it with the log's.
//
// Whoever lies where one lies already is not followed. An address counts for the block of an arena
// that it lies in, else for the driver's, once a launch.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "../../arenas/fake_c10.h"
#include "client.h"
#include "gpupeak/gpupeak.h"

namespace {

constexpr uint64_t kSegment = 64 * kMiB;

struct Block {
  uint64_t begin, end;
  bool is_torch, is_followed;
  uint64_t count = 0;
};

std::mt19937_64 g_random(3);
uint64_t below(uint64_t limit) {
  return g_random() % limit;
}

std::map<uint64_t, Block> g_torch, g_own;  // by begin
std::map<uint64_t, uint64_t> g_segments;   // the driver's: begin to count
gpupeak_arena g_arena;
unsigned long long g_left_out = 0;

bool overlaps(const std::map<uint64_t, Block>& blocks, uint64_t begin, uint64_t end,
              bool followed_only) {
  return std::any_of(blocks.begin(), blocks.end(), [&](const auto& entry) {
    const Block& block = entry.second;
    return block.begin < end && begin < block.end && (block.is_followed || !followed_only);
  });
}

const char* name_of(const Block& block) {
  return block.is_torch ? "PyTorch" : "own";
}
void say(const char* what, const Block& block) {
  printf("%s %s %#llx %lld\n", what, name_of(block), static_cast<unsigned long long>(block.begin),
         block.is_followed ? static_cast<long long>(block.count) : -1LL);
}

uint64_t random_place() {
  auto segment = g_segments.begin();
  if (below(2) == 0) ++segment;
  return segment->first + below(below(3) == 0 ? kSegment : 4 * kMiB);
}

void report(uint64_t at, int64_t bytes) {
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(at), bytes, 1 << 20, kSegment, {1, 0});
}

void give(bool is_torch) {
  const uint64_t unit = is_torch ? 512 : 16;
  const uint64_t begin = random_place() / unit * unit;
  const uint64_t bytes = below(6) == 0 ? (1 + below(40)) * kMiB / 2 : unit * (1 + below(60));
  auto& blocks = is_torch ? g_torch : g_own;
  const auto segment = std::prev(g_segments.upper_bound(begin));
  if (begin + bytes > segment->first + kSegment) return;
  if (overlaps(blocks, begin, begin + bytes, false)) return;
  const bool is_followed = !overlaps(g_torch, begin, begin + bytes, true) &&
                           !overlaps(g_own, begin, begin + bytes, true);
  g_left_out += is_followed ? 0 : 1;
  blocks[begin] = {begin, begin + bytes, is_torch, is_followed};
  if (is_torch)
    report(begin, static_cast<int64_t>(bytes));
  else
    gpupeak_arena_alloc(g_arena, reinterpret_cast<void*>(begin), bytes, nullptr);
}

void take(bool is_torch) {
  auto& blocks = is_torch ? g_torch : g_own;
  if (blocks.empty()) return;
  auto block = blocks.lower_bound(random_place());
  if (block == blocks.end()) block = blocks.begin();
  say("ended", block->second);
  if (is_torch)
    report(block->first, -static_cast<int64_t>(block->second.end - block->first));
  else
    gpupeak_arena_free(g_arena, reinterpret_cast<void*>(block->first));
  blocks.erase(block);
}

uint64_t random_word() {
  const bool is_torch = below(4) != 0;
  const auto& blocks = is_torch ? g_torch : g_own;
  if (blocks.empty() || below(6) == 0) return random_place();
  auto block = blocks.lower_bound(random_place());
  if (block == blocks.end()) block = blocks.begin();
  return block->first + (below(3) == 0 ? below(block->second.end - block->first) : 0);
}

/// What the program knows of the address's block: where its count stands.
uint64_t* count_at(uint64_t address) {
  for (auto* blocks : {&g_torch, &g_own}) {
    for (auto& [begin, block] : *blocks) {
      if (block.is_followed && address >= begin && address < block.end) return &block.count;
    }
  }
  const auto segment = g_segments.upper_bound(address);
  return &std::prev(segment)->second;
}

void launch(CUfunction function) {
  uint64_t first = random_word(), second = random_word(), by_value[20] = {1, 2, 3};
  for (uint64_t i = below(4); i > 0; --i) by_value[below(20)] = random_word();
  void* parameters[] = {&first, &second, by_value};
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  std::set<uint64_t*> counts{count_at(first), count_at(second)};
  for (const uint64_t word : by_value) {
    if (word > 3) counts.insert(count_at(word));
  }
  for (uint64_t* const count : counts) ++*count;
}

}  // namespace

int main() {
  use_device(0);
  CUmodule module;
  CUfunction function;
  OK(cuModuleLoadData(&module, ""));
  OK(cuModuleGetFunction(&function, module, "pool_takes_8_8_160"));
  for (int i = 0; i < 2; ++i) g_segments[allocate(kSegment)] = 0;
  g_arena = gpupeak_arena_create("own", nullptr, 0);
  constexpr int kSteps = 30'000;
  for (int step = 0; step < kSteps; ++step) {
    const bool has_own = step > kSteps / 3 && step < kSteps * 2 / 3;
    const bool is_torch = !has_own || below(3) != 0;
    const uint64_t what = below(8);
    if (what < 2 && g_torch.size() + g_own.size() < 300)
      give(is_torch);
    else if (what < 4)
      take(is_torch);
    else
      launch(function);
    while (!has_own && !g_own.empty()) take(false);
    if (step == kSteps / 2) gpupeak_mark("middle");
  }
  for (const auto* blocks : {&g_torch, &g_own}) {
    for (const auto& [begin, block] : *blocks) say("live", block);
  }
  for (const auto& [begin, count] : g_segments)
    printf("driver %#llx %llu\n", static_cast<unsigned long long>(begin),
           static_cast<unsigned long long>(count));
  printf("left_out %llu\n", g_left_out);
  return finish();
}
