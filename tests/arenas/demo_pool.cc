#include "demo_pool.h"

#include <cuda.h>

#include <map>
#include <mutex>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace demo {
namespace {

/// First fit in one piece of the driver's memory.
class Chunk {
 public:
  explicit Chunk(size_t bytes) : bytes_(bytes) {
    CUdevice device;
    CUcontext context;
    CUdeviceptr at = 0;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    cuMemAlloc(&at, bytes);
    begin_ = at;
  }
  ~Chunk() { cuMemFree(begin_); }

  void* alloc(size_t bytes, size_t counted) {
    const std::lock_guard guard(lock_);
    uint64_t at = begin_;
    for (const auto& [begin, block] : blocks_) {
      if (begin - at >= bytes) break;
      at = begin + block.bytes;
    }
    if (at == 0 || at + bytes > begin_ + bytes_) return nullptr;
    blocks_[at] = {bytes, counted};
    ledger_.in_use += counted;
    ledger_.requests += 1;
    if (ledger_.in_use > ledger_.peak) ledger_.peak = ledger_.in_use;
    return reinterpret_cast<void*>(at);
  }
  void free(void* at) {
    const std::lock_guard guard(lock_);
    const auto found = blocks_.find(reinterpret_cast<uint64_t>(at));
    if (found == blocks_.end()) return;
    ledger_.in_use -= found->second.counted;
    blocks_.erase(found);
  }
  Ledger ledger() const { return ledger_; }
  void for_each(OnBlock on_block) const {
    for (const auto& [at, block] : blocks_) on_block(at, block.counted);
  }

 private:
  struct Block {
    size_t bytes, counted;
  };
  std::mutex lock_;
  uint64_t begin_ = 0, bytes_;
  std::map<uint64_t, Block> blocks_;
  Ledger ledger_{};
};

}  // namespace

class RoundingPool final : public Pool {
 public:
  void* alloc(size_t bytes, size_t* given) override {
    const size_t rounded = (bytes + 511) / 512 * 512;
    void* const at = chunk_.alloc(rounded, rounded);
    if (at != nullptr) *given = rounded;
    return at;
  }
  void free(void* at, size_t) override { chunk_.free(at); }
  Ledger ledger() override { return chunk_.ledger(); }
  void for_each(OnBlock on_block) override { chunk_.for_each(on_block); }

 private:
  Chunk chunk_{32 << 20};
};

namespace {

Chunk& shared_chunk() {
  static auto* const chunk = new Chunk(16 << 20);
  return *chunk;
}

}  // namespace
}  // namespace demo

EXPORT demo::Pool* demo_make_pool() {
  return new demo::RoundingPool;
}
EXPORT void* demo_alloc(size_t bytes) {
  return demo::shared_chunk().alloc((bytes / 256 + 1) * 256, bytes);
}
EXPORT void demo_free(void* at) {
  demo::shared_chunk().free(at);
}
EXPORT void* demo_alloc_twice_as_much(size_t bytes) {
  return demo_alloc(2 * bytes);
}
EXPORT demo::Ledger demo_ledger() {
  return demo::shared_chunk().ledger();
}
EXPORT void demo_for_each(demo::OnBlock on_block) {
  demo::shared_chunk().for_each(on_block);
}
