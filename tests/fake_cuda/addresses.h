// Device addresses: ranges that the kernel reserves and nobody can touch. So no device pointer is
// also a host pointer, and freed addresses soon come back, as they do with a real driver.
#pragma once

#include <cstdint>
#include <map>

namespace fake_cuda {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPage = 2 * kMiB;  ///< what a GPU maps at once

constexpr uint64_t round_up(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

/// An address range; 0 if there is none. `below_4g`: for the first ABI, whose device pointers have
/// 32 bits.
uint64_t reserve_addresses(uint64_t bytes, uint64_t alignment = kPage, bool below_4g = false);
void release_addresses(uint64_t at, uint64_t bytes);

/// Small blocks out of large chunks: first fit, blocks in steps of 512 bytes.
class ChunkArena {
 public:
  explicit ChunkArena(uint64_t chunk_bytes, bool below_4g = false)
      : chunk_bytes_(chunk_bytes), below_4g_(below_4g) {}

  /// Bytes of device memory in chunks.
  uint64_t reserved() const { return reserved_; }
  /// By how much reserved() would grow if so many bytes were allocated.
  uint64_t growth_for(uint64_t bytes) const;
  /// The address of a new block; 0 if there are no addresses left.
  uint64_t allocate(uint64_t bytes);
  /// False if no block begins at `at`.
  bool free(uint64_t at);
  /// Gives chunks without blocks back while more than `keep` bytes are reserved; returns the bytes.
  uint64_t release_unused(uint64_t keep);

 private:
  struct Chunk {
    uint64_t bytes;
    std::map<uint64_t, uint64_t> holes;  ///< address to bytes
  };
  bool find_hole(uint64_t bytes, uint64_t& chunk, uint64_t& at) const;

  uint64_t chunk_bytes_;
  bool below_4g_;
  uint64_t reserved_ = 0;
  std::map<uint64_t, Chunk> chunks_;
  std::map<uint64_t, uint64_t> blocks_;
};

}  // namespace fake_cuda
