// Guesses the next address in a log from the addresses before. Packing and unpacking make the same
// guesses in the same order, so that an address that was guessed need not be written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpupeak::collector {

class AddressModel {
 public:
  static constexpr size_t kGuesses = 6;
  using Guesses = std::array<uint64_t, kGuesses>;

  /// For an allocation of so many usable bytes. An allocator hands out again what was freed last,
  /// or goes on behind what it handed out last.
  Guesses of_allocated(uint64_t usable_bytes) const {
    const Freed& freed = freed_[slot_of(usable_bytes, kClassBits)];
    return {freed.addresses[(freed.end - 1) % kDepth],
            (last_allocated_ + last_usable_ + kHeader + 15) & ~uint64_t{15},
            freed.addresses[(freed.end - 2) % kDepth],
            freed.addresses[(freed.end - 3) % kDepth],
            freed.addresses[(freed.end - 4) % kDepth],
            freed.addresses[freed.end % kDepth]};
  }
  void allocated(uint64_t address, uint64_t usable_bytes) {
    Freed& freed = freed_[slot_of(usable_bytes, kClassBits)];
    for (uint32_t back = 1; back <= 4; ++back) {
      if (freed.addresses[(freed.end - back) % kDepth] != address) continue;
      for (; back > 1; --back) {
        freed.addresses[(freed.end - back) % kDepth] =
            freed.addresses[(freed.end - back + 1) % kDepth];
      }
      --freed.end;
      break;
    }
    order_[count_ % kRemembered] = address;
    blocks_[slot_of(address >> 4, kBlockBits)] = {address, usable_bytes, count_};
    ++count_;
    last_allocated_ = address;
    last_usable_ = usable_bytes;
  }

  /// For a free. The block that was allocated last is freed first, or one that was allocated next
  /// to the block that was freed last.
  Guesses of_freed() const {
    const Block& block = blocks_[slot_of(last_freed_ >> 4, kBlockBits)];
    const uint32_t at = block.address == last_freed_ ? block.number : count_;
    return {order_[(count_ - 1) % kRemembered], order_[(at + 1) % kRemembered],
            order_[(at - 1) % kRemembered],     order_[(at + 2) % kRemembered],
            order_[(at - 2) % kRemembered],     order_[(count_ - 2) % kRemembered]};
  }
  void freed(uint64_t address) {
    const Block& block = blocks_[slot_of(address >> 4, kBlockBits)];
    if (block.address == address) {
      Freed& freed = freed_[slot_of(block.usable_bytes, kClassBits)];
      freed.addresses[freed.end++ % kDepth] = address;
    }
    last_freed_ = address;
  }

 private:
  static constexpr uint32_t kClassBits = 12, kBlockBits = 16, kDepth = 16, kRemembered = 1 << 16;
  static constexpr uint64_t kHeader = 8;  // what glibc has in front of a block
  struct Block {
    uint64_t address = 0, usable_bytes = 0;
    uint32_t number = 0;
  };
  /// The addresses of one size class that were freed last, as a ring.
  struct Freed {
    std::array<uint64_t, kDepth> addresses{};
    uint32_t end = 0;
  };
  static size_t slot_of(uint64_t key, uint32_t bits) {
    return (key * 0x9e3779b97f4a7c15u) >> (64 - bits);
  }

  std::vector<Block> blocks_ = std::vector<Block>(size_t{1} << kBlockBits);
  std::vector<Freed> freed_ = std::vector<Freed>(size_t{1} << kClassBits);
  std::vector<uint64_t> order_ = std::vector<uint64_t>(kRemembered);
  uint32_t count_ = 0;
  uint64_t last_allocated_ = 0, last_usable_ = 0, last_freed_ = 0;
};

}  // namespace gpupeak::collector
