#include <atomic>
#include <cstring>

#include "base/hash_tables.h"
#include "base/memory.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "log/log.h"
#include "log/log_file.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kFirstChunkBytes = 16 << 10;
constexpr size_t kLargestChunkBytes = 256 << 10;

/// The stream's place in the file.
struct Stream {
  struct Position {
    uint8_t* at = nullptr;
    uint64_t nodes = 0;  ///< defined up to there
  };
  /// One is the current position, the other the next one. The store to `current` makes a definition
  /// whole, even if a signal handler's jump comes in between.
  Position positions[2];
  uint32_t current = 0;
  uint8_t* end = nullptr;
  Chunk chunk;
  uint64_t sequence = 0;
  bool waits = false;  ///< the position is in g_waiting
  bool lost = false;   ///< a definition has found no room: later ones would get its number

  uint8_t*& at() { return positions[current].at; }
  uint64_t nodes() const { return positions[current].nodes; }
  /// Others read the count without the lock; see defined_nodes().
  void move_to(uint8_t* at, uint64_t nodes) {
    positions[1 - current].at = at;
    std::atomic_ref<uint64_t>(positions[1 - current].nodes).store(nodes, std::memory_order_relaxed);
    in_order();
    std::atomic_ref<uint32_t>(current).store(1 - current, std::memory_order_relaxed);
  }
};

/// All strings one after the other, each ended by a nul; ids count from 1.
struct Strings {
  struct Place {
    uint32_t id = 0, offset = 0;
  };
  static constexpr size_t kCapacity = 4 << 20;  // addresses; pages come as they are needed
  char* text = nullptr;
  size_t bytes = 0;
  uint32_t count = 0;
  FlatMap<Place> places;  ///< by hash; strings with the same hash have the next keys
};

/// Where some strings are, by their hash: a name that comes again, such as a phase's, is found
/// without the lock. Text is never changed or moved, and a place is written after its text.
class RecentStrings {
 public:
  std::atomic<uint64_t>& of(uint64_t hash) { return places_[hash % kPlaces]; }
  static uint64_t pack(Strings::Place place) {
    return static_cast<uint64_t>(place.offset) << 32 | place.id;
  }
  static Strings::Place unpack(uint64_t packed) {
    return {static_cast<uint32_t>(packed), static_cast<uint32_t>(packed >> 32)};
  }

 private:
  static constexpr size_t kPlaces = 1024;
  std::atomic<uint64_t> places_[kPlaces] = {};
};

constinit FutexLock g_lock;
constinit Stream g_stream;
constinit Strings g_strings;
constinit RecentStrings g_recent;

/// Definitions for which the log has no room now. None may be left out, since their order gives
/// their numbers. They begin behind room for a header, as in a chunk. The array takes no memory
/// until it is used.
constexpr size_t kMostWaiting = 1 << 20;
constinit uint8_t g_waiting[kMostWaiting];

/// Begins the next chunk, with the definitions that waited.
bool begin_chunk(size_t room) {
  constexpr size_t kHeader = sizeof(gpupeak_chunk_header);
  const size_t waited =
      g_stream.waits ? static_cast<size_t>(g_stream.at() - g_waiting) - kHeader : 0;
  size_t size = g_stream.sequence == 0 ? kFirstChunkBytes : fitting_chunk_bytes(kLargestChunkBytes);
  while (size < kHeader + waited + room) size *= 2;
  const Chunk chunk = new_chunk(size, GPUPEAK_CHUNK_DEFINITIONS, 0, g_stream.sequence,
                                static_cast<uint32_t>(sys::gettid()));
  if (chunk.begin == nullptr) return false;
  if (chunk.bytes < kHeader + waited + room) {  // the disk's last pages: too few
    retire_chunk(chunk);
    return false;
  }
  memcpy(chunk.begin + kHeader, g_waiting + kHeader, waited);
  g_stream.chunk = chunk;
  g_stream.waits = false;
  ++g_stream.sequence;
  g_stream.at() = chunk.begin + kHeader + waited;
  g_stream.end = chunk.begin + chunk.bytes;
  return true;
}

bool make_room(size_t bytes) {
  // Definitions from before the log is open are made again when it opens. A forked child does not
  // have its parent's log.
  if (log_path().empty() || g_stream.lost) return false;
  const auto has_room = [bytes] {
    return static_cast<size_t>(g_stream.end - g_stream.at()) >= bytes;
  };
  if (has_room() && !(g_stream.waits && !log_rests())) return true;
  const SignalsHeld held;  // else a jump might leave the old chunk, to be unmapped twice
  if (!g_stream.waits) {
    retire_chunk(g_stream.chunk);
    g_stream.chunk = {};
    g_stream.at() = g_stream.end = nullptr;
  }
  if (begin_chunk(bytes)) return true;
  if (!g_stream.waits) {
    g_stream.waits = true;
    g_stream.at() = g_waiting + sizeof(gpupeak_chunk_header);
    g_stream.end = g_waiting + sizeof g_waiting;
  }
  if (has_room()) return true;
  g_stream.lost = true;
  count(&gpupeak_counters_page::dropped_events);
  return false;
}

void append(uint8_t tag, const uint8_t* body, size_t bytes) {
  const bool has_room = make_room(bytes + 8);
  uint8_t* at = g_stream.at();
  if (has_room) {
    uint8_t* to = put_varint(at + 1, bytes);
    memcpy(to, body, bytes);
    std::atomic_ref<uint8_t>(*at).store(tag, std::memory_order_release);
    at = to + bytes;
  }
  g_stream.move_to(at, g_stream.nodes() + (tag == GPUPEAK_DEF_NODE));
}

/// FNV-1a; never 0, which is no key.
uint64_t hash(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value | 1;
}
uint64_t next_key(uint64_t key) {
  return key + 2;  // stays odd
}

/// Id 0: the table is full.
Strings::Place intern_under_lock(std::string_view text) {
  LockGuard guard(g_lock);
  if (g_strings.text == nullptr) {
    g_strings.text = static_cast<char*>(reserve_pages(Strings::kCapacity));
    if (g_strings.text == nullptr) return {};
  }
  uint64_t key = hash(text);
  for (; const Strings::Place* place = g_strings.places.find(key); key = next_key(key)) {
    if (g_strings.text + place->offset == text) return *place;
  }
  const SignalsHeld held;  // else a jump might leave a string without its definition
  const Strings::Place place{g_strings.count + 1, static_cast<uint32_t>(g_strings.bytes)};
  if (g_strings.bytes + text.size() + 1 > Strings::kCapacity ||
      !g_strings.places.insert(key, place)) {
    return {};
  }
  memcpy(g_strings.text + g_strings.bytes, text.data(), text.size());
  g_strings.bytes += text.size() + 1;
  ++g_strings.count;
  define_locked(Record{GPUPEAK_DEF_STRING, text});
  return place;
}

}  // namespace

FutexLock& definitions_lock() {
  return g_lock;
}

void define_locked(const Record& record) {
  append(record.tag(), record.body(), record.bytes());
}

void define_node_locked(uint32_t distance, int64_t ip_delta) {
  uint8_t body[20];
  uint8_t* end = put_varint(put_varint(body, distance), zigzag(ip_delta));
  append(GPUPEAK_DEF_NODE, body, static_cast<size_t>(end - body));
}

uint64_t defined_nodes_locked() {
  return g_stream.nodes();
}

uint64_t defined_nodes() {
  const uint32_t current =
      std::atomic_ref<uint32_t>(g_stream.current).load(std::memory_order_relaxed);
  return std::atomic_ref<uint64_t>(g_stream.positions[current].nodes)
      .load(std::memory_order_relaxed);
}

void define_fact(std::string_view key, std::string_view value) {
  define(Record{GPUPEAK_DEF_FACT, key, value});
}

void say_log_gap(bool at_end) {
  LogGap gap;
  if (take_log_gap(gap, at_end)) define_fact("log.gap", Text<64>(gap.begin_ns, " ", gap.end_ns));
}

void end_definitions() {
  end_log_rest();
  say_log_gap(true);
  LockGuard guard(g_lock);
  if (g_stream.waits) make_room(0);
}

void define(const Record& record) {
  LockGuard guard(g_lock);
  define_locked(record);
}

uint32_t intern_string(std::string_view text) {
  if (text.size() > Record::kMaxString) text = {text.data(), Record::kMaxString};
  std::atomic<uint64_t>& recent = g_recent.of(hash(text));
  const Strings::Place known = RecentStrings::unpack(recent.load(std::memory_order_acquire));
  if (known.id != 0 && g_strings.text + known.offset == text) return known.id;
  const Strings::Place place = intern_under_lock(text);
  if (place.id != 0) recent.store(RecentStrings::pack(place), std::memory_order_release);
  return place.id;
}

void leave_definitions() {
  LockGuard guard(g_lock);
  if (!g_stream.waits) retire_chunk(g_stream.chunk);
  g_stream = {};
}

void restart_definitions() {
  g_lock.reset();
  g_stream = {};
  LockGuard guard(g_lock);
  // Another thread may have been changing these when the process was forked.
  g_strings.places.forget();
  g_strings.count = 0;
  for (size_t at = 0; at < g_strings.bytes; at += strlen(g_strings.text + at) + 1) {
    const char* text = g_strings.text + at;
    uint64_t key = hash(text);
    while (g_strings.places.find(key) != nullptr) key = next_key(key);
    g_strings.places.insert(key, {++g_strings.count, static_cast<uint32_t>(at)});
    define_locked(Record{GPUPEAK_DEF_STRING, std::string_view(text)});
  }
}

}  // namespace gpupeak::preload
