// A library with ONNX Runtime's entry point, version and arena classes: the names, the order of the
// virtual functions and the words of the statistics by FAKE_MINOR, chunks of 256 bytes' multiples
// that are not always split, regions that double and are smaller where there is no more memory,
// reservations, a limit: all as in its releases, without streams of a run. FAKE_ODD: the same names
// and number of functions, and each function another one than its place says; with FAKE_ODD_STREAM
// only a call shows it. FAKE_GPU: the arena for streams takes its memory from the driver.
// Its API creates sessions and runs them, which ask for what two variables list. FAKE_WHEEL: the
// module of the Python package, without the entry point.
#include "fake_ort_arena.h"

#ifdef FAKE_GPU
#include <cuda.h>
#endif
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>

#ifndef FAKE_ODD
namespace {
void (*g_before_lock)();
}
#endif

namespace onnxruntime {

struct AllocatorStats {
  int64_t num_allocs, num_reserves, num_arena_extensions, num_arena_shrinkages, bytes_in_use;
#if FAKE_MINOR >= 29
  int64_t bytes_requested_in_use;
#endif
  int64_t total_allocated_bytes, max_bytes_in_use, max_alloc_size, bytes_limit;
};
class Stream;

#ifndef FAKE_ODD

class IAllocator {
 public:
  virtual ~IAllocator() = default;
  virtual void* Alloc(size_t size) = 0;
#if FAKE_MINOR >= 23
  virtual bool IsStreamAware() const {
    return false;
  }
  virtual void* AllocOnStream(size_t size, Stream*) {
    return Alloc(size);
  }
#endif
  virtual void Free(void* at) = 0;
  virtual void* Reserve(size_t size) {
    return Alloc(size);
  }
  virtual void GetStats(AllocatorStats* stats) {
    *stats = {};
  }
#if FAKE_MINOR >= 30
  virtual IAllocator* AsArena() {
    return nullptr;
  }
  virtual const IAllocator* AsConstArena() const {
    return nullptr;
  }
#endif
};
#if FAKE_MINOR >= 24
class IArena : public IAllocator {
 public:
  virtual void ReleaseStreamBuffers(Stream*) {}
  virtual int Shrink() = 0;
};
using Base = IArena;
#else
using Base = IAllocator;
#endif

class BFCArena : public Base {
 public:
  explicit BFCArena(int64_t limit) { stats_.bytes_limit = limit; }
  ~BFCArena() override {
    for (const auto& [at, bytes] : regions_) Put(at);
    for (const auto& [at, bytes] : reserved_) Put(at);
  }
  void* Alloc(size_t size) override { return Take(size); }
  void Free(void* at) override {
    const std::lock_guard guard(lock_);
    if (const auto reserved = reserved_.find(at); reserved != reserved_.end()) {
      stats_.bytes_in_use -= static_cast<int64_t>(reserved->second);
      stats_.total_allocated_bytes -= static_cast<int64_t>(reserved->second);
      padding_ -= padded(reserved->second) - reserved->second;
      reserved_.erase(reserved);
      Put(at);
      return;
    }
    const auto chunk = used_.find(static_cast<char*>(at));
    if (chunk == used_.end()) return;
    stats_.bytes_in_use -= static_cast<int64_t>(chunk->second);
    char* begin = chunk->first;
    size_t bytes = chunk->second;
    used_.erase(chunk);
    // A region's begin never joins what lies before it.
    if (const auto next = free_.find(begin + bytes);
        next != free_.end() && regions_.count(next->first) == 0) {
      bytes += next->second;
      free_.erase(next);
    }
    if (auto before = free_.lower_bound(begin);
        before != free_.begin() && regions_.count(begin) == 0) {
      --before;
      if (before->first + before->second == begin) {
        begin = before->first;
        bytes += before->second;
      }
    }
    free_[begin] = bytes;
  }
  void* Reserve(size_t size) override {
    const std::lock_guard guard(lock_);
    void* const at = Get(size);
    reserved_[at] = size;
    padding_ += padded(size) - size;
    ++stats_.num_reserves;
    ++stats_.num_allocs;
    Count(size);
    return at;
  }
  void GetStats(AllocatorStats* stats) override {
    const std::lock_guard guard(lock_);
    *stats = stats_;
  }
#if FAKE_MINOR < 23
  virtual bool SecureTheChunk() {
    return false;
  }
#endif
#if FAKE_MINOR >= 24
  int Shrink() override {
    return 0;
  }
#endif
  /// What was taken from the heap beyond what the statistics say.
  size_t padding() const {
    return padding_;
  }
  void each(void (*visit)(uint64_t, uint64_t)) {
    for (const auto& [at, bytes] : used_) visit(reinterpret_cast<uint64_t>(at), bytes);
    for (const auto& [at, bytes] : reserved_) visit(reinterpret_cast<uint64_t>(at), bytes);
  }

 protected:
  void* Take(size_t size) {
    if (g_before_lock != nullptr) g_before_lock();
    const std::lock_guard guard(lock_);
    const size_t rounded = (size + 255) / 256 * 256;
    for (int attempt = 0; attempt < 2; ++attempt) {
      auto best = free_.end();
      for (auto chunk = free_.begin(); chunk != free_.end(); ++chunk) {
        if (chunk->second < rounded) continue;
        if (best == free_.end() || chunk->second < best->second) best = chunk;
      }
      if (best != free_.end()) {
        const auto [at, bytes] = *best;
        free_.erase(best);
        const bool split = bytes >= 2 * rounded || bytes - rounded >= size_t{128} << 20;
        const size_t given = split ? rounded : bytes;
        if (split) free_[at + rounded] = bytes - rounded;
        used_[at] = given;
        ++stats_.num_allocs;
        Count(given);
        return at;
      }
      Extend(rounded);
    }
    return nullptr;
  }

 private:
  void Extend(size_t rounded) {
    constexpr size_t kMost = size_t{1} << 30;
    const auto left = static_cast<size_t>(stats_.bytes_limit - stats_.total_allocated_bytes);
    if (rounded > left) throw std::runtime_error("no memory for the arena");
    const bool enough = rounded <= next_region_;
    while (next_region_ < rounded) next_region_ *= 2;
    size_t bytes = std::min(next_region_, left / 256 * 256);
    if (enough) next_region_ = 2 * next_region_ < kMost ? 2 * next_region_ : kMost;
    char* region = nullptr;
    while (region == nullptr) {
      try {
        region = static_cast<char*>(Get(bytes));
      } catch (const std::bad_alloc&) {
        const float less = static_cast<float>(bytes) * 0.9F;
        bytes = (static_cast<size_t>(less) + 255) / 256 * 256;
        if (bytes < rounded || bytes < size_t{8} << 10) throw;
      }
    }
    regions_[region] = free_[region] = bytes;
    ++stats_.num_arena_extensions;
  }
  void* Get(size_t size) {
    if (stats_.total_allocated_bytes + static_cast<int64_t>(size) > stats_.bytes_limit) {
      throw std::runtime_error("no memory for the arena");
    }
    void* at = nullptr;
#ifdef FAKE_GPU
    CUdeviceptr place = 0;
    if (on_gpu_ && cuMemAlloc(&place, size) != CUDA_SUCCESS) throw std::bad_alloc();
    at = reinterpret_cast<void*>(place);
#endif
    if (!on_gpu_ && posix_memalign(&at, 64, padded(size)) != 0) throw std::bad_alloc();
    stats_.total_allocated_bytes += static_cast<int64_t>(size);
    return at;
  }
  void Count(size_t bytes) {
    stats_.bytes_in_use += static_cast<int64_t>(bytes);
    if (stats_.bytes_in_use > stats_.max_bytes_in_use)
      stats_.max_bytes_in_use = stats_.bytes_in_use;
  }

  void Put(void* at) {
#ifdef FAKE_GPU
    if (on_gpu_) {
      cuMemFree(reinterpret_cast<CUdeviceptr>(at));
      return;
    }
#endif
    free(at);
  }
  size_t padded(size_t size) const {
    return on_gpu_ ? size : (size + 63) / 64 * 64;
  }

 protected:
  bool on_gpu_ = false;

 private:
  std::mutex lock_;
  AllocatorStats stats_{};
  size_t padding_ = 0;
  size_t next_region_ = 1 << 20;
  std::map<char*, size_t> free_, used_, regions_;
  std::map<void*, size_t> reserved_;
};

#if FAKE_MINOR >= 24
class StreamAwareBFCArena : public BFCArena {
#else
class StreamAwareArena : public BFCArena {
#endif
 public:
#ifdef FAKE_GPU
  explicit StreamAwareBFCArena(int64_t limit) : BFCArena(limit) {
    on_gpu_ = true;
    CUcontext context = nullptr;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
  }
#else
  using BFCArena::BFCArena;
#endif
#if FAKE_MINOR >= 23
  bool IsStreamAware() const override {
    return true;
  }
  void* AllocOnStream(size_t size, Stream*) override {
    return Take(size);
  }
#else
  bool SecureTheChunk() override {
    return true;
  }
#endif
};
#if FAKE_MINOR >= 24
using Streamed = StreamAwareBFCArena;
#else
using Streamed = StreamAwareArena;
#endif

#else  // FAKE_ODD

/// What arrives of a call: all its arguments, by their places.
#define ODD(n)                                                                              \
  virtual double odd##n(long a, long b, long c, long d, long e, double x, double y, long f, \
                        long g, long h, double z) {                                         \
    return n + 2.0 * static_cast<double>(a) + 3.0 * static_cast<double>(b) +                \
           4.0 * static_cast<double>(c) + 5.0 * static_cast<double>(d) +                    \
           6.0 * static_cast<double>(e) + 7 * x + 8 * y + 9.0 * static_cast<double>(f) +    \
           10.0 * static_cast<double>(g) + 11.0 * static_cast<double>(h) + 12 * z;          \
  }
class IArena {
 public:
  virtual ~IArena() = default;
  ODD(2) ODD(3) ODD(4) ODD(5) ODD(6) ODD(7) ODD(8) ODD(9) ODD(10) ODD(11)
};
class BFCArena : public IArena {};
class StreamAwareBFCArena : public BFCArena {
#ifdef FAKE_ODD_STREAM
 public:
  ODD(4)
#endif
};

#endif

}  // namespace onnxruntime

using namespace onnxruntime;

namespace {

#ifndef FAKE_ODD
BFCArena* arena_of(void* arena) {
  return static_cast<BFCArena*>(arena);
}
#endif

const FakeOrt kTable = {
#ifndef FAKE_ODD
    [](bool streamed, int64_t limit) -> void* {
      BFCArena* const made = streamed ? new Streamed(limit) : new BFCArena(limit);
      return made;
    },
    [](void* arena) {
      Base* volatile base = arena_of(arena);
      delete base;
    },
    [](void* arena, size_t size) -> void* {
      Base* volatile base = arena_of(arena);
      return base->Alloc(size);
    },
    [](void* arena, size_t size) -> void* {
      Base* volatile base = arena_of(arena);
#if FAKE_MINOR >= 23
      return base->AllocOnStream(size, nullptr);
#else
      return base->Alloc(size);
#endif
    },
    [](void* arena, size_t size) -> void* {
      Base* volatile base = arena_of(arena);
      return base->Reserve(size);
    },
    [](void* arena, void* at) {
      Base* volatile base = arena_of(arena);
      base->Free(at);
    },
    [](void* arena) -> FakeOrtLedger {
      AllocatorStats stats{};
      arena_of(arena)->BFCArena::GetStats(&stats);
      return {static_cast<uint64_t>(stats.bytes_in_use),
              static_cast<uint64_t>(stats.total_allocated_bytes) + arena_of(arena)->padding(),
              static_cast<uint64_t>(stats.max_bytes_in_use)};
    },
    [](void* arena, void (*visit)(uint64_t, uint64_t)) { arena_of(arena)->each(visit); },
    [](void (*function)()) { g_before_lock = function; },
    FAKE_MINOR >= 23,
    nullptr,
#else
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    true,
    []() -> bool {
      IArena* volatile arena = new BFCArena;
      IArena* volatile streamed = new StreamAwareBFCArena;
      bool right = true;
      for (int round = 0; round < 3; ++round) {
        for (IArena* const one : {static_cast<IArena*>(arena), static_cast<IArena*>(streamed)}) {
          const double sum = 2 + 6 + 12 + 20 + 30 + 7 * 0.5 + 8 * 0.25 + 9 * 6 + 70 + 88 + 12 * 9.5;
          right = right && one->odd2(1, 2, 3, 4, 5, 0.5, 0.25, 6, 7, 8, 9.5) == sum + 2;
          right = right && one->odd4(1, 2, 3, 4, 5, 0.5, 0.25, 6, 7, 8, 9.5) == sum + 4;
          right = right && one->odd5(1, 2, 3, 4, 5, 0.5, 0.25, 6, 7, 8, 9.5) == sum + 5;
          right = right && one->odd6(1, 2, 3, 4, 5, 0.5, 0.25, 6, 7, 8, 9.5) == sum + 6;
        }
      }
      // What was replaced has been put back: all that these tables hold is this library's own.
      Dl_info here{}, there{};
      dladdr(reinterpret_cast<const void*>(&fake_ort), &here);
      for (IArena* const one : {static_cast<IArena*>(arena), static_cast<IArena*>(streamed)}) {
        void* const* const table = *reinterpret_cast<void***>(one);
        for (int slot = 0; slot < 12; ++slot) {
          right = right && dladdr(table[slot], &there) != 0 && there.dli_fbase == here.dli_fbase;
        }
      }
      delete arena;
      delete streamed;
      return right;
    },
#endif
};

#ifndef FAKE_WHEEL
const void* g_api[400];
const char* version() {
  return FAKE_VERSION;
}

#ifndef FAKE_ODD
/// Blocks of the sizes that a variable lists, all from one place, as initializers are asked for.
__attribute__((noinline)) void ask_for(void* arena, const char* variable) {
  const char* at = getenv(variable);
  for (char* end = nullptr; at != nullptr && *at != 0; at = end) {
    const size_t bytes = strtoull(at, &end, 10);
    if (end == at) break;
    kTable.alloc(arena, bytes);
  }
}
/// (env, path, options, out). A session is its arena.
const void* create_session(const void*, const char*, const void*, void** out) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  *out = kTable.make(true, kLimit);
  ask_for(*out, "FAKE_SESSION_ASKS");
  return nullptr;
}
const void* run(void* session, const void*, const void*, const void*, size_t, const void*, size_t,
                void*) {
  ask_for(session, "FAKE_RUN_ASKS");
  return nullptr;
}
#endif

const void* get_api(uint32_t) {
  for (const void*& slot : g_api) slot = reinterpret_cast<const void*>(&version);
#ifndef FAKE_ODD
  constexpr size_t kCreateSession = 7, kRun = 9;
  g_api[kCreateSession] = reinterpret_cast<const void*>(&create_session);
  g_api[kRun] = reinterpret_cast<const void*>(&run);
#endif
  return g_api;
}
struct ApiBase {
  const void* (*get_api)(uint32_t);
  const char* (*get_version)();
};
const ApiBase kBase = {get_api, version};
#else
/// PyModuleDef of every CPython so far.
struct ModuleDefinition {
  void* head[5];
  const char *name, *text;
  long bytes;
  void* rest[5];
};
ModuleDefinition g_module = {{}, "onnxruntime_pybind11_state", nullptr, -1, {}};
#endif

}  // namespace

#ifndef FAKE_WHEEL
extern "C" __attribute__((visibility("default"))) const void* OrtGetApiBase() {
  return &kBase;
}
#else
extern "C" void* PyModule_Create2(ModuleDefinition*, int api);
extern "C" __attribute__((visibility("default"))) void* PyInit_onnxruntime_pybind11_state() {
  constexpr int kPythonApi = 1013;
  return PyModule_Create2(&g_module, kPythonApi);
}
#endif
extern "C" __attribute__((visibility("default"))) const FakeOrt* fake_ort() {
  return &kTable;
}
