// A plugin with PJRT's entry point and table of functions, and XLA's allocator: the names, the
// order of the virtual functions and the statistics of JAX 0.11's, chunks of 256 bytes' multiples
// that are not always split, one region of the driver's memory, and requests that wait for memory.
// FAKE_OTHER: a release whose allocator has one function more.
#include "fake_xla.h"

#include <cuda.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace tsl {

struct AllocationAttributes {
  bool retry_on_failure = true;
};
struct AllocatorStats {
  int64_t num_allocs = 0, bytes_in_use = 0, peak_bytes_in_use = 0, largest_alloc_size = 0;
  std::optional<int64_t> bytes_limit;
  int64_t bytes_reserved = 0, peak_bytes_reserved = 0, another = 0;
  std::optional<int64_t> bytes_reservable_limit;
  int64_t largest_free_block_bytes = 0;
  std::optional<int64_t> pool_bytes, peak_pool_bytes;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual std::string Name() = 0;
  virtual void* AllocateRaw(size_t alignment, size_t bytes) = 0;
  virtual void* AllocateRaw(size_t alignment, size_t bytes, const AllocationAttributes&) {
    return AllocateRaw(alignment, bytes);
  }
  virtual void* AllocateRawAlignedNew(size_t alignment, size_t bytes) {
    return AllocateRaw(alignment, bytes);
  }
  virtual void* AllocateRawAlignedNew(size_t alignment, size_t bytes,
                                      const AllocationAttributes& with) {
    return AllocateRaw(alignment, bytes, with);
  }
  virtual void DeallocateRaw(void* at) = 0;
  virtual void DeallocateRaw(void* at, size_t, size_t) { DeallocateRaw(at); }
  virtual void DeallocateRawAlignedDelete(void* at, size_t alignment, size_t bytes) {
    DeallocateRaw(at, alignment, bytes);
  }
  virtual bool TracksAllocationSizes() const { return false; }
  virtual bool AllocatesOpaqueHandle() const { return false; }
  virtual size_t RequestedSize(const void*) const { return 0; }
  virtual size_t AllocatedSize(const void*) const { return 0; }
  virtual int64_t AllocationId(const void*) const { return 0; }
  virtual size_t AllocatedSizeSlow(const void*) const { return 0; }
  virtual std::optional<AllocatorStats> GetStats() { return std::nullopt; }
  virtual bool ClearStats() { return false; }
  virtual void SetSafeFrontier(uint64_t) {}
  virtual void SetStreamAndPreallocateMemory(void*) {}
  virtual int GetMemoryType() const { return 0; }
#ifdef FAKE_OTHER
  virtual void Another() {}
#endif
};

class BFCAllocator : public Allocator {
 public:
  static constexpr size_t kRegion = 64 << 20;

  BFCAllocator() {
    CUcontext context = nullptr;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    stats_.bytes_limit = kRegion;
    stats_.pool_bytes = stats_.peak_pool_bytes = 0;
  }
  std::string Name() override { return "GPU_0_bfc"; }
  void* AllocateRaw(size_t alignment, size_t bytes) override {
    return AllocateRaw(alignment, bytes, AllocationAttributes());
  }
  void* AllocateRaw(size_t, size_t bytes, const AllocationAttributes& with) override {
    std::unique_lock lock(mutex_);
    void* at = take(bytes);
    if (at == nullptr && with.retry_on_failure) {
      waiting_ = true;
      freed_.wait_for(lock, std::chrono::seconds(8), [&] { return (at = take(bytes)) != nullptr; });
      waiting_ = false;
    }
    return at;
  }
  void DeallocateRaw(void* at) override {
    const std::lock_guard lock(mutex_);
    const auto chunk = used_.find(reinterpret_cast<uint64_t>(at));
    if (chunk == used_.end()) return;
    stats_.bytes_in_use -= static_cast<int64_t>(chunk->second);
    free_[chunk->first] = chunk->second;
    used_.erase(chunk);
    freed_.notify_all();
  }
  bool TracksAllocationSizes() const override { return true; }
  size_t AllocatedSize(const void* at) const override {
    const std::lock_guard lock(mutex_);
    return used_.at(reinterpret_cast<uint64_t>(at));
  }
  std::optional<AllocatorStats> GetStats() override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  bool ClearStats() override {
    const std::lock_guard lock(mutex_);
    stats_.num_allocs = 0;
    stats_.peak_bytes_in_use = stats_.bytes_in_use;
    return true;
  }
  bool waits() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }
  void each(void (*visit)(uint64_t, uint64_t)) {
    for (const auto& [at, bytes] : used_) visit(at, bytes);
  }

 private:
  void* take(size_t bytes) {
    if (*stats_.pool_bytes == 0) {
      CUdeviceptr region = 0;
      if (cuMemAlloc(&region, kRegion) != CUDA_SUCCESS) return nullptr;
      stats_.pool_bytes = stats_.peak_pool_bytes = kRegion;
      free_[region] = kRegion;
    }
    const size_t rounded = (bytes + 255) / 256 * 256;
    for (auto chunk = free_.begin(); chunk != free_.end(); ++chunk) {
      if (chunk->second < rounded) continue;
      const auto [at, whole] = *chunk;
      free_.erase(chunk);
      const bool split = whole >= 2 * rounded;
      const size_t given = split ? rounded : whole;
      if (split) free_[at + rounded] = whole - rounded;
      used_[at] = given;
      ++stats_.num_allocs;
      stats_.bytes_in_use += static_cast<int64_t>(given);
      stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
      return reinterpret_cast<void*>(at);
    }
    return nullptr;
  }

  mutable std::mutex mutex_;
  std::condition_variable freed_;
  bool waiting_ = false;
  AllocatorStats stats_;
  std::map<uint64_t, size_t> free_, used_;
};

}  // namespace tsl

namespace {

tsl::BFCAllocator* arena() {
  static auto* const made = new tsl::BFCAllocator;
  return made;
}
tsl::Allocator* allocator() {
  tsl::Allocator* volatile base = arena();
  return base;
}

// Not constant: right behind the allocator's table of functions it would be taken for more of them.
FakeXla g_table = {
    [](size_t size) -> void* { return allocator()->AllocateRaw(64, size); },
    [](size_t size, bool retry) -> void* { return allocator()->AllocateRaw(64, size, {retry}); },
    [](void* at) { allocator()->DeallocateRaw(at, 64, 0); },
    [] { allocator()->ClearStats(); },
    []() -> FakeXlaLedger {
      const tsl::AllocatorStats stats = *arena()->tsl::BFCAllocator::GetStats();
      return {static_cast<uint64_t>(stats.bytes_in_use), static_cast<uint64_t>(*stats.pool_bytes),
              static_cast<uint64_t>(stats.peak_bytes_in_use)};
    },
    [](void (*visit)(uint64_t, uint64_t)) { arena()->each(visit); },
    []() -> bool { return arena()->waits(); },
};

// PJRT: each function takes a pointer to words, the first of which is their size.
using Word = uintptr_t;

struct Program {
  std::string name;
};
Word fail(Word*) {
  return reinterpret_cast<Word>(new int);
}
Word destroy_error(Word* arguments) {
  delete reinterpret_cast<int*>(arguments[2]);
  return 0;
}
/// (client, name, options, bytes of options) gives a program.
Word compile(Word* arguments) {
  const char* const name = reinterpret_cast<const char*>(arguments[3]);
  if (name == nullptr) return fail(arguments);
  void* const workspace = allocator()->AllocateRaw(64, 1 << 20);
  arguments[6] = reinterpret_cast<Word>(new Program{name});
  allocator()->DeallocateRaw(workspace);
  return 0;
}
Word executable_of_program(Word* arguments) {
  arguments[3] = reinterpret_cast<Word>(new Program(*reinterpret_cast<Program*>(arguments[2])));
  return 0;
}
Word name_of_executable(Word* arguments) {
  const auto* const program = reinterpret_cast<const Program*>(arguments[2]);
  arguments[3] = reinterpret_cast<Word>(program->name.data());
  arguments[4] = program->name.size();
  return 0;
}
Word destroy_program(Word* arguments) {
  delete reinterpret_cast<Program*>(arguments[2]);
  return 0;
}
/// Uses as many thousand bytes as its name is long.
Word execute(Word* arguments) {
  const auto* const program = reinterpret_cast<const Program*>(arguments[2]);
  void* const temporary = allocator()->AllocateRaw(64, 1000 * program->name.size(), {true});
  allocator()->DeallocateRaw(temporary);
  return 0;
}

Word g_api[143];

}  // namespace

extern "C" __attribute__((visibility("default"))) const Word* GetPjrtApi() {
  for (Word& slot : g_api) slot = reinterpret_cast<Word>(&fail);
  g_api[0] = sizeof g_api;
  g_api[1] = 0;
  g_api[2] = 3 * sizeof(Word);
  g_api[3] = 0;
  g_api[4] = Word{115} << 32;
  g_api[kPjrtDestroyError] = reinterpret_cast<Word>(&destroy_error);
  g_api[kPjrtCompile] = reinterpret_cast<Word>(&compile);
  g_api[kPjrtDestroyExecutable] = reinterpret_cast<Word>(&destroy_program);
  g_api[kPjrtNameOfExecutable] = reinterpret_cast<Word>(&name_of_executable);
  g_api[kPjrtDestroyProgram] = reinterpret_cast<Word>(&destroy_program);
  g_api[kPjrtExecutableOfProgram] = reinterpret_cast<Word>(&executable_of_program);
  g_api[kPjrtExecute] = reinterpret_cast<Word>(&execute);
  return g_api;
}
extern "C" __attribute__((visibility("default"))) const FakeXla* fake_xla() {
  return &g_table;
}
