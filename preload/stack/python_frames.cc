#include "stack/python_frames.h"

#include <cstring>

#include "base/flat_map.h"
#include "base/futex_lock.h"
#include "base/memory.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kMaxFrames = 1 << 20;

struct Frame {
  uint32_t function, file, line;
};

struct Frames {
  FutexLock lock;
  struct Known {
    uint64_t check;  ///< another hash of the same frame
    uint32_t number;
  };
  FlatMap<Known> numbers;   ///< by hash
  Frame* frames = nullptr;  ///< by number - 1
  uint32_t count = 0;
};
constinit Frames g_frames;

struct Hash {
  uint64_t a = 0x2545f4914f6cdd1d, b = 0x9e3779b97f4a7c15;

  void add(uint64_t word) {
    a = (a ^ word) * 0xff51afd7ed558ccd;
    a ^= a >> 32;
    b = (b + word) * 0xc4ceb9fe1a85ec53;
    b ^= b >> 29;
  }
  void add(std::string_view text) {
    add(text.size());
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      memcpy(&word, text.data() + i, text.size() - i < 8 ? text.size() - i : 8);
      add(word);
    }
  }
};

void define_frame(const Frame& frame) {
  Record record(GPUPEAK_DEF_PYTHON_FRAME);
  define(record.u(frame.function).u(frame.file).u(frame.line));
}

}  // namespace

uint32_t python_frame(std::string_view function, std::string_view file, uint32_t line) {
  Hash hash;
  hash.add(function);
  hash.add(file);
  hash.add(line);
  const uint64_t key = hash.a != 0 ? hash.a : 1;
  LockGuard guard(g_frames.lock);
  const Frames::Known* known = g_frames.numbers.find(key);
  if (known != nullptr) return known->check == hash.b ? known->number : 0;
  if (g_frames.frames == nullptr) {
    g_frames.frames = static_cast<Frame*>(reserve_pages(kMaxFrames * sizeof(Frame)));
    if (g_frames.frames == nullptr) return 0;
  }
  if (g_frames.count == kMaxFrames) return 0;
  const Frame frame{intern_string(function), intern_string(file), line};
  if (!g_frames.numbers.insert(key, {hash.b, g_frames.count + 1})) return 0;
  g_frames.frames[g_frames.count++] = frame;
  define_frame(frame);
  return g_frames.count;
}

void redefine_python_frames() {
  g_frames.lock.reset();
  LockGuard guard(g_frames.lock);
  for (uint32_t i = 0; i < g_frames.count; ++i) define_frame(g_frames.frames[i]);
}

}  // namespace gpupeak::preload
