#include "addresses.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <iterator>

namespace fake_cuda {
namespace {

constexpr uint64_t kStep = 512, kHighStep = 2 << 20;

uint64_t block_bytes(uint64_t bytes) {
  return round_up(std::max<uint64_t>(bytes, 1), kStep);
}

void unmap(uint64_t at, uint64_t bytes) {
  if (bytes > 0) munmap(reinterpret_cast<void*>(at), bytes);
}

void* map(void* wish, uint64_t bytes) {
  return mmap(wish, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/// Maps at addresses where a device's memory is, also under valgrind, which gives out low addresses
/// first.
void* map_high(uint64_t bytes) {
  static std::atomic<uint64_t> wish{uint64_t{1} << 46};
  void* const found = map(nullptr, bytes);
  if (found == MAP_FAILED || reinterpret_cast<uint64_t>(found) >> 32 != 0) return found;
  munmap(found, bytes);
  return map(reinterpret_cast<void*>(wish.fetch_add(round_up(bytes, kHighStep))), bytes);
}

/// Maps below 4 GiB. Not every architecture has MAP_32BIT.
void* map_low(uint64_t bytes) {
  constexpr uint64_t kFirst = 64 << 20, kEnd = uint64_t{1} << 32, kStride = 16 << 20;
  for (uint64_t wish = kFirst; wish + bytes <= kEnd; wish += kStride) {
    void* const found = map(reinterpret_cast<void*>(wish), bytes);
    if (found == MAP_FAILED) return found;
    if (reinterpret_cast<uint64_t>(found) + bytes <= kEnd) return found;
    munmap(found, bytes);
  }
  return MAP_FAILED;
}

}  // namespace

uint64_t reserve_addresses(uint64_t bytes, uint64_t alignment, bool below_4g) {
  const uint64_t wanted = bytes + alignment;
  void* const found = below_4g ? map_low(wanted) : map_high(wanted);
  if (found == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<uint64_t>(found);
  const uint64_t at = round_up(begin, alignment);
  unmap(begin, at - begin);
  unmap(at + bytes, begin + wanted - (at + bytes));
  return at;
}

void release_addresses(uint64_t at, uint64_t bytes) {
  unmap(at, bytes);
}

bool ChunkArena::find_hole(uint64_t bytes, uint64_t& chunk, uint64_t& at) const {
  for (const auto& [base, candidate] : chunks_) {
    for (const auto& [hole, size] : candidate.holes) {
      if (size < bytes) continue;
      chunk = base;
      at = hole;
      return true;
    }
  }
  return false;
}

uint64_t ChunkArena::growth_for(uint64_t bytes) const {
  uint64_t chunk, at;
  return find_hole(block_bytes(bytes), chunk, at) ? 0 : round_up(block_bytes(bytes), chunk_bytes_);
}

uint64_t ChunkArena::allocate(uint64_t bytes) {
  const uint64_t size = block_bytes(bytes);
  uint64_t base = 0, at = 0;
  if (!find_hole(size, base, at)) {
    const uint64_t chunk = round_up(size, chunk_bytes_);
    base = at = reserve_addresses(chunk, kPage, below_4g_);
    if (base == 0) return 0;
    chunks_[base] = {chunk, {{base, chunk}}};
    reserved_ += chunk;
  }
  auto& holes = chunks_[base].holes;
  const uint64_t hole = holes[at];
  holes.erase(at);
  if (hole > size) holes[at + size] = hole - size;
  blocks_[at] = size;
  return at;
}

bool ChunkArena::free(uint64_t at) {
  const auto block = blocks_.find(at);
  if (block == blocks_.end()) return false;
  auto& holes = std::prev(chunks_.upper_bound(at))->second.holes;
  auto hole = holes.emplace(at, block->second).first;
  blocks_.erase(block);
  const auto next = std::next(hole);
  if (next != holes.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    holes.erase(next);
  }
  if (hole != holes.begin()) {
    const auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
      before->second += hole->second;
      holes.erase(hole);
    }
  }
  return true;
}

uint64_t ChunkArena::release_unused(uint64_t keep) {
  uint64_t released = 0;
  for (auto at = chunks_.begin(); at != chunks_.end() && reserved_ > keep;) {
    const auto& [base, chunk] = *at;
    const bool unused = chunk.holes.size() == 1 && chunk.holes.begin()->second == chunk.bytes;
    if (!unused) {
      ++at;
      continue;
    }
    release_addresses(base, chunk.bytes);
    reserved_ -= chunk.bytes;
    released += chunk.bytes;
    at = chunks_.erase(at);
  }
  return released;
}

}  // namespace fake_cuda
