#include "track/launch_parameters.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/hook_scope.h"
#include "base/memory.h"
#include "track/device_book.h"
#include "track/driver.h"
#include "track/tensor_maps.h"

namespace gpupeak::preload {
namespace {

using ParameterInfo = CUresult (*)(const void*, size_t, size_t*, size_t*);
constinit DriverFunction<ParameterInfo> g_of_function("cuFuncGetParamInfo");
constinit DriverFunction<ParameterInfo> g_of_kernel("cuKernelGetParamInfo");

/// A parameter that has room for an address.
struct Piece {
  uint16_t index;     ///< of the parameter
  uint16_t skip;      ///< bytes to its first aligned word
  uint16_t words;     ///< aligned words in it
  uint16_t map_skip;  ///< bytes to the first place for a tensor map; kNoMap: there is none

  bool is_one_word() const { return words == 1 && skip == 0; }
};
constexpr uint16_t kNoMap = UINT16_MAX;
/// A function's pieces lie behind its Layout, first those of one word, as most parameters are. A
/// Layout never changes. An Entry may be cleared and used for another function before a reader
/// comes to its layout; so the Layout says which function it is for.
struct Layout {
  uint64_t function;
  uint32_t one_word_count, count;

  const Piece* pieces() const { return reinterpret_cast<const Piece*>(this + 1); }
};
constexpr size_t kMostPieces = 512;

/// The known layouts by function. Read without a lock, as a SeenSet is.
struct Layouts {
  static constexpr size_t kCapacity = 1 << 15, kMost = kCapacity * 3 / 4;
  struct Entry {
    std::atomic<uint64_t> function;
    std::atomic<const Layout*> layout;
  };
  std::atomic<Entry*> entries{nullptr};
  // Under the book's lock.
  size_t count = 0;
  uint8_t* room = nullptr;
  size_t room_bytes = 0;
};
constinit Layouts g_layouts;
constexpr size_t kRoomBytes = 256 << 10;

size_t home(uint64_t function) {
  return static_cast<size_t>((function * 0x9e3779b97f4a7c15u) >> 32) & (Layouts::kCapacity - 1);
}

const Layout* find_layout(uint64_t function) {
  const Layouts::Entry* const entries = g_layouts.entries.load(std::memory_order_acquire);
  if (entries == nullptr) return nullptr;
  for (size_t i = home(function);; i = (i + 1) & (Layouts::kCapacity - 1)) {
    const uint64_t found = entries[i].function.load(std::memory_order_acquire);
    if (found == 0) return nullptr;
    if (found != function) continue;
    const Layout* const layout = entries[i].layout.load(std::memory_order_acquire);
    return layout->function == function ? layout : nullptr;
  }
}

/// Asks the driver for a function's parameters. ask() is false if the driver is too old.
class AskedPieces {
 public:
  bool ask(const void* function) {
    if (ask_by(g_of_function, function)) return true;
    return ask_by(g_of_kernel, function);
  }
  size_t count() const { return count_; }
  const Piece* pieces() const { return pieces_; }

 private:
  bool ask_by(DriverFunction<ParameterInfo>& ask, const void* function) {
    count_ = 0;
    size_t offset = 0, bytes = 0, index = 0;
    CUresult result;
    while ((result = ask(function, index, &offset, &bytes)) == CUDA_SUCCESS)
      add(index++, offset, bytes);
    // This error says that there is no parameter with this index.
    return result == CUDA_ERROR_INVALID_VALUE;
  }
  void add(size_t index, size_t offset, size_t bytes) {
    constexpr size_t kWord = sizeof(uint64_t);
    const size_t skip = -offset % kWord;
    if (bytes < skip + kWord || count_ == kMostPieces) return;
    const size_t map_skip = -offset % kTensorMapAlignment;
    const bool has_map = bytes >= map_skip + kTensorMapBytes;
    pieces_[count_++] = {static_cast<uint16_t>(index), static_cast<uint16_t>(skip),
                         static_cast<uint16_t>((bytes - skip) / kWord),
                         has_map ? static_cast<uint16_t>(map_skip) : kNoMap};
  }

  size_t count_ = 0;
  Piece pieces_[kMostPieces];
};

/// Room for a Layout and its pieces; nullptr: no memory. The caller holds the book's lock.
Layout* make_room_for(size_t pieces) {
  const size_t bytes = (sizeof(Layout) + pieces * sizeof(Piece) + 7) / 8 * 8;
  if (g_layouts.room_bytes < bytes) {
    g_layouts.room = static_cast<uint8_t*>(map_pages(kRoomBytes));
    g_layouts.room_bytes = g_layouts.room != nullptr ? kRoomBytes : 0;
    if (g_layouts.room == nullptr) return nullptr;
  }
  void* const at = g_layouts.room;
  g_layouts.room += bytes;
  g_layouts.room_bytes -= bytes;
  return static_cast<Layout*>(at);
}

const Layout* keep(uint64_t function, const AskedPieces& asked) {
  HookScope scope;
  if (!scope.entered()) return nullptr;
  const BookGuard guard;
  if (!guard) return nullptr;
  if (const Layout* const known = find_layout(function)) return known;
  if (g_layouts.entries.load(std::memory_order_relaxed) == nullptr) {
    void* const fresh = map_pages(Layouts::kCapacity * sizeof(Layouts::Entry));
    if (fresh == nullptr) return nullptr;
    g_layouts.entries.store(static_cast<Layouts::Entry*>(fresh), std::memory_order_release);
  }
  if (g_layouts.count >= Layouts::kMost) return nullptr;
  Layout* const layout = make_room_for(asked.count());
  if (layout == nullptr) return nullptr;
  layout->function = function;
  layout->count = static_cast<uint32_t>(asked.count());
  auto* const pieces = reinterpret_cast<Piece*>(layout + 1);
  memcpy(pieces, asked.pieces(), asked.count() * sizeof(Piece));
  const Piece* const longer = std::partition(
      pieces, pieces + layout->count, [](const Piece& piece) { return piece.is_one_word(); });
  layout->one_word_count = static_cast<uint32_t>(longer - pieces);
  Layouts::Entry* const entries = g_layouts.entries.load(std::memory_order_relaxed);
  size_t i = home(function);
  while (entries[i].function.load(std::memory_order_relaxed) != 0)
    i = (i + 1) & (Layouts::kCapacity - 1);
  entries[i].layout.store(layout, std::memory_order_relaxed);
  entries[i].function.store(function, std::memory_order_release);
  ++g_layouts.count;
  return layout;
}

const Layout* learn_layout(const void* function) {
  const int program_errno = errno;
  AskedPieces asked;
  const bool is_known = asked.ask(function);
  errno = program_errno;
  return is_known ? keep(reinterpret_cast<uint64_t>(function), asked) : nullptr;
}

/// Looks at the buffer, if the launch was given its parameters in one. False: it was not.
bool look_at_buffer(void* const* extra, SeenWords& seen) {
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (void* const* option = extra; *option != CU_LAUNCH_PARAM_END; option += 2) {
    if (*option == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = option[1];
    if (*option == CU_LAUNCH_PARAM_BUFFER_SIZE) memcpy(&bytes, option[1], sizeof bytes);
  }
  if (buffer == nullptr) return false;
  seen.look_at_all(buffer, bytes);
  look_for_tensor_maps(buffer, bytes, seen);
  return true;
}

inline __attribute__((always_inline)) void look_by(const Layout& layout, void* const* parameters,
                                                   SeenWords& seen) {
  const Piece* piece = layout.pieces();
  const Piece* const end = piece + layout.count;
  for (const Piece* const longer = piece + layout.one_word_count; piece != longer; ++piece)
    seen.look_at(*static_cast<const uint64_t*>(parameters[piece->index]));
  for (; piece != end; ++piece) {
    const char* const at = static_cast<const char*>(parameters[piece->index]) + piece->skip;
    seen.look_at_all(at, piece->words * sizeof(uint64_t));
    if (piece->map_skip != kNoMap && g_has_tensor_maps.load(std::memory_order_relaxed))
      look_for_tensor_maps(at - piece->skip + piece->map_skip,
                           piece->words * sizeof(uint64_t) + piece->skip - piece->map_skip, seen);
  }
}

}  // namespace

GPUPEAK_HOT bool look_at_parameters(const void* function, void* const* parameters,
                                    void* const* extra, SeenWords& seen) {
  if (parameters == nullptr && extra != nullptr && look_at_buffer(extra, seen)) return true;
  const Layout* const layout = find_layout(reinterpret_cast<uint64_t>(function));
  if (__builtin_expect(layout == nullptr, 0)) return false;
  if (__builtin_expect(parameters == nullptr, 0)) return layout->count == 0;
  look_by(*layout, parameters, seen);
  return true;
}

bool ask_and_look_at_parameters(const void* function, void* const* parameters, void* const* extra,
                                SeenWords& seen) {
  learn_layout(function);
  return look_at_parameters(function, parameters, extra, seen);
}

void forget_parameters() {
  HookScope scope;
  if (!scope.entered()) return;
  const BookGuard guard;
  if (!guard) return;
  Layouts::Entry* const entries = g_layouts.entries.load(std::memory_order_relaxed);
  if (entries == nullptr || g_layouts.count == 0) return;
  for (size_t i = 0; i < Layouts::kCapacity; ++i)
    entries[i].function.store(0, std::memory_order_relaxed);
  g_layouts.count = 0;
}

}  // namespace gpupeak::preload
