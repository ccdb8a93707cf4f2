#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/memory.h"
#include "gpupeak/pages.h"
#include "log/log.h"
#include "thread/emit.h"
#include "track/device_book.h"
#include "track/driver.h"
#include "track/last_use.h"
#include "track/ledger.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kTensorMapBytes = 128, kTensorMapAlignment = 64;
constexpr size_t kMaps = 1 << 12;  // if two maps have one place, the later one stays
constexpr size_t kWords = kTensorMapBytes / sizeof(uint64_t);

/// Changed under the book's lock, and read without it. Whoever reads any value of a change sees the
/// odd version before it (the two fences) or a later one, and the versions differ then. All words
/// may be those of an old map and of its address again: only the version tells.
struct KnownMap {
  std::atomic<uint64_t> version;  ///< odd: it changes just now
  std::atomic<uint64_t> address;  ///< 0: none
  std::atomic<uint64_t> words[kWords];

  void set(const uint64_t* to, uint64_t its_address) {
    const uint64_t now = version.load(std::memory_order_relaxed);
    version.store(now + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < kWords; ++i) words[i].store(to[i], std::memory_order_relaxed);
    address.store(its_address, std::memory_order_relaxed);
    version.store(now + 2, std::memory_order_release);
  }
  /// The address that belongs to these words; 0: none is known.
  uint64_t address_of(const uint64_t* wanted) const {
    const uint64_t before = version.load(std::memory_order_acquire);
    for (size_t i = 0; i < kWords; ++i) {
      if (words[i].load(std::memory_order_relaxed) != wanted[i]) return 0;
    }
    const uint64_t its_address = address.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool is_whole = before % 2 == 0 && version.load(std::memory_order_relaxed) == before;
    return is_whole ? its_address : 0;
  }
};
constinit std::atomic<KnownMap*> g_maps{nullptr};

void read(const void* at, uint64_t* words) {
  memcpy(words, at, kTensorMapBytes);
}

size_t place_of(const uint64_t* words) {
  uint64_t hash = 0;
  for (size_t i = 0; i < kWords; ++i) hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
  return static_cast<size_t>(hash >> 40) % kMaps;
}

/// Whether the driver has made a map.
constinit std::atomic<bool> g_has_tensor_maps{false};

/// Looks for maps in parameters: at `at`, and each kTensorMapAlignment bytes behind it.
void look_for_tensor_maps(const void* at, size_t bytes, uint16_t place, SeenWords& seen) {
  const KnownMap* const maps = g_maps.load(std::memory_order_acquire);
  if (maps == nullptr) return;
  for (size_t offset = 0; offset + kTensorMapBytes <= bytes; offset += kTensorMapAlignment) {
    uint64_t words[kWords];
    read(static_cast<const char*>(at) + offset, words);
    if (const uint64_t address = maps[place_of(words)].address_of(words))
      seen.look_at(address, place);
  }
}

using ParameterInfo = CUresult (*)(const void*, size_t, size_t*, size_t*);
constinit DriverFunction<ParameterInfo> g_of_function("cuFuncGetParamInfo");
constinit DriverFunction<ParameterInfo> g_of_kernel("cuKernelGetParamInfo");

/// The place of a parameter in a ROLE record.
uint16_t place_of(uint16_t index, bool in_structure) {
  return static_cast<uint16_t>(index * 2 + (in_structure ? 1 : 0));
}

/// A parameter that has room for an address.
struct Piece {
  uint16_t index;     ///< of the parameter
  uint16_t skip;      ///< bytes to its first aligned word
  uint16_t words;     ///< aligned words in it
  uint16_t map_skip;  ///< bytes to the first place for a tensor map; kNoMap: there is none

  bool is_one_word() const { return words == 1 && skip == 0; }
};
constexpr uint16_t kNoMap = UINT16_MAX;
/// The pieces of a function's parameters lie behind it, first those of one word, as most are. It
/// never changes and stays for good. Functions whose parameters are alike share it, so those that
/// come and go with their modules need no room of their own.
struct Layout {
  uint32_t one_word_count, count;

  const Piece* pieces() const { return reinterpret_cast<const Piece*>(this + 1); }
};
constexpr size_t kMostPieces = 512;

/// The known layouts by function. Read without a lock: one word says which function it is for, and
/// which layout it has.
struct Layouts {
  static constexpr size_t kCapacity = 1 << 15, kMost = kCapacity * 3 / 4;
  static constexpr unsigned kNumberBits = 16;  // behind an address of 48 bits
  static constexpr size_t kMostLayouts = 1 << 12;

  std::atomic<uint64_t> entries[kCapacity];
  // Of the function of each entry:
  std::atomic<uint32_t> kernels[kCapacity];  ///< its number in the log
  std::atomic<uint32_t> looked[kCapacity];   ///< launches looked at, up to kFirstLaunches
  const Layout* layouts[kMostLayouts];
};
constinit std::atomic<Layouts*> g_layouts{nullptr};
// Under the book's lock.
constinit size_t g_entry_count = 0, g_layout_count = 0;
constinit uint8_t* g_room = nullptr;
constinit size_t g_room_bytes = 0;
constexpr size_t kRoomBytes = 256 << 10;

size_t home(uint64_t function) {
  return static_cast<size_t>((function * 0x9e3779b97f4a7c15u) >> 32) & (Layouts::kCapacity - 1);
}

/// So many launches of each function are looked at, whatever it takes.
constexpr uint32_t kFirstLaunches = 8;

struct Known {
  const Layout* layout = nullptr;  ///< nullptr: the function is not known
  uint32_t kernel = 0;
  std::atomic<uint32_t>* looked = nullptr;

  /// Whether a launch of it is left out, since launches have taken their part of the time.
  bool is_left_out() const {
    if (watches_all_uses()) return false;
    const uint32_t count = looked->load(std::memory_order_relaxed);
    if (__builtin_expect(count >= kFirstLaunches, 1)) return g_launch_budget.leaves_out();
    looked->store(count + 1, std::memory_order_relaxed);
    return false;
  }
};

Known find_known(const void* handle) {
  const auto function = reinterpret_cast<uint64_t>(handle);
  Layouts* const known = g_layouts.load(std::memory_order_acquire);
  if (known == nullptr) return {};
  for (size_t i = home(function);; i = (i + 1) & (Layouts::kCapacity - 1)) {
    const uint64_t entry = known->entries[i].load(std::memory_order_acquire);
    if (entry == 0) return {};
    if (entry >> Layouts::kNumberBits != function) continue;
    return {known->layouts[entry & ((1u << Layouts::kNumberBits) - 1)],
            known->kernels[i].load(std::memory_order_relaxed), &known->looked[i]};
  }
}

/// Asks the driver for a function's parameters. ask() is false if the driver is too old.
class AskedPieces {
 public:
  bool ask(const void* function) {
    if (!ask_by(g_of_function, function) && !ask_by(g_of_kernel, function)) return false;
    const Piece* const longer = std::partition(
        pieces_, pieces_ + count_, [](const Piece& piece) { return piece.is_one_word(); });
    one_word_count_ = static_cast<uint32_t>(longer - pieces_);
    return true;
  }
  bool are_those_of(const Layout& layout) const {
    return layout.count == count_ && layout.one_word_count == one_word_count_ &&
           memcmp(layout.pieces(), pieces_, count_ * sizeof(Piece)) == 0;
  }
  /// Room for a Layout of them; it is written there.
  size_t layout_bytes() const { return (sizeof(Layout) + count_ * sizeof(Piece) + 7) / 8 * 8; }
  const Layout* write(void* at) const {
    auto* const layout = static_cast<Layout*>(at);
    *layout = {one_word_count_, count_};
    memcpy(layout + 1, pieces_, count_ * sizeof(Piece));
    return layout;
  }

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

  uint32_t count_ = 0, one_word_count_ = 0;
  Piece pieces_[kMostPieces];
};

/// The number of the layout of these pieces; kMostLayouts: no memory, or too many are known. The
/// caller holds the book's lock.
size_t layout_number(Layouts& known, const AskedPieces& asked) {
  for (size_t i = 0; i < g_layout_count; ++i) {
    if (asked.are_those_of(*known.layouts[i])) return i;
  }
  const size_t bytes = asked.layout_bytes();
  if (g_layout_count < Layouts::kMostLayouts && g_room_bytes < bytes) {
    g_room = static_cast<uint8_t*>(map_pages(kRoomBytes));
    g_room_bytes = g_room != nullptr ? kRoomBytes : 0;
  }
  if (g_layout_count == Layouts::kMostLayouts || g_room_bytes < bytes) return Layouts::kMostLayouts;
  known.layouts[g_layout_count] = asked.write(g_room);
  g_room += bytes;
  g_room_bytes -= bytes;
  return g_layout_count++;
}

void keep(const void* handle, const AskedPieces& asked, const ApiCall* call) {
  HookScope scope;
  if (!scope.entered()) return;
  const auto function = reinterpret_cast<uint64_t>(handle);
  const std::string_view text = function_name(reinterpret_cast<CUfunction>(function));
  const uint32_t name = text.empty() ? 0 : intern_string(text);
  const uint32_t stack = call != nullptr ? capture_stack(call->caller) : 0;
  const BookGuard guard;
  if (!guard) return;
  if (find_known(handle).layout != nullptr) return;
  Layouts* known = g_layouts.load(std::memory_order_relaxed);
  if (known == nullptr) {
    known = static_cast<Layouts*>(map_pages(sizeof(Layouts)));
    if (known == nullptr) return;
    g_layouts.store(known, std::memory_order_release);
  }
  const bool fits = function >> (64 - Layouts::kNumberBits) == 0;
  if (!fits || g_entry_count >= Layouts::kMost) return;
  const size_t number = layout_number(*known, asked);
  if (number == Layouts::kMostLayouts) return;
  size_t i = home(function);
  while (known->entries[i].load(std::memory_order_relaxed) != 0)
    i = (i + 1) & (Layouts::kCapacity - 1);
  known->kernels[i].store(define_kernel(name, stack), std::memory_order_relaxed);
  known->looked[i].store(0, std::memory_order_relaxed);
  known->entries[i].store(function << Layouts::kNumberBits | number, std::memory_order_release);
  ++g_entry_count;
}

void learn(const void* function, const ApiCall* call) {
  const KeptErrno program_errno;
  AskedPieces asked;
  if (asked.ask(function)) keep(function, asked, call);
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
  seen.look_at_all(buffer, bytes, GPUPEAK_NO_PARAMETER);
  look_for_tensor_maps(buffer, bytes, GPUPEAK_NO_PARAMETER, seen);
  return true;
}

inline __attribute__((always_inline)) void look_by(const Layout& layout, void* const* parameters,
                                                   SeenWords& seen) {
  const Piece* piece = layout.pieces();
  const Piece* const end = piece + layout.count;
  for (const Piece* const longer = piece + layout.one_word_count; piece != longer; ++piece)
    seen.look_at(*static_cast<const uint64_t*>(parameters[piece->index]),
                 place_of(piece->index, false));
  for (; piece != end; ++piece) {
    const char* const at = static_cast<const char*>(parameters[piece->index]) + piece->skip;
    const uint16_t place = place_of(piece->index, true);
    seen.look_at_all(at, piece->words * sizeof(uint64_t), place);
    if (piece->map_skip != kNoMap && g_has_tensor_maps.load(std::memory_order_relaxed))
      look_for_tensor_maps(at - piece->skip + piece->map_skip,
                           piece->words * sizeof(uint64_t) + piece->skip - piece->map_skip, place,
                           seen);
  }
}

}  // namespace

void note_tensor_map(const void* map, uint64_t address) {
  const InBook book;
  if (!book) return;
  KnownMap* maps = g_maps.load(std::memory_order_relaxed);
  if (maps == nullptr) {
    maps = static_cast<KnownMap*>(map_pages(whole_pages(kMaps * sizeof(KnownMap))));
    if (maps == nullptr) return;
    g_maps.store(maps, std::memory_order_release);
    g_has_tensor_maps.store(true, std::memory_order_relaxed);
  }
  uint64_t words[kWords];
  read(map, words);
  maps[place_of(words)].set(words, address);
}

GPUPEAK_HOT bool look_at_parameters(const void* function, void* const* parameters,
                                    void* const* extra, SeenWords& seen, bool may_leave_out) {
  const Known known = find_known(function);
  if (__builtin_expect(known.layout == nullptr, 0)) return false;
  if (may_leave_out && known.is_left_out()) return true;
  seen.of_kernel(known.kernel);
  if (__builtin_expect(parameters == nullptr, 0))
    return (extra != nullptr && look_at_buffer(extra, seen)) || known.layout->count == 0;
  look_by(*known.layout, parameters, seen);
  return true;
}

bool ask_and_look_at_parameters(const void* function, void* const* parameters, void* const* extra,
                                SeenWords& seen, const ApiCall* call) {
  learn(function, call);
  return look_at_parameters(function, parameters, extra, seen, false) ||
         (parameters == nullptr && extra != nullptr && look_at_buffer(extra, seen));
}

void learn_parameters(const void* function, const ApiCall* call) {
  if (find_known(function).layout == nullptr) learn(function, call);
}

void forget_parameters() {
  const InBook book;
  if (!book) return;
  Layouts* const known = g_layouts.load(std::memory_order_relaxed);
  if (known == nullptr || g_entry_count == 0) return;
  clear_pages(known->entries, Layouts::kCapacity);
  g_entry_count = 0;
}

}  // namespace gpupeak::preload
