// Writes all of the log but events: definitions, and the counters page. A thread writes
// its events by thread/emit.h. Every function is HOOK-SAFE and must be called inside a HookScope.
//
// in    a fact, a string, a stack's node, a library; a gauge that moves
// out   a definition, written before the first event that uses it; a word of the counters page
//
//   intern_string("weights") the first time   STRING in the stream of definitions; answers id 12
//   "weights" once more                       nothing is written; answers id 12
//
//   | header | counters page | definitions | chunk of thread 1 | chunk of thread 2 | …
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/compiler.h"
#include "base/lock.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

// The log's page of counters and gauges, which a program can read while it runs. Every function is
// HOOK-SAFE.

extern constinit GPUPEAK_OWN gpupeak_counters_page* g_counters;
/// The counters page; before the log is open a private page, so that it can always be written.
inline gpupeak_counters_page& counters() {
  return *g_counters;
}
constexpr int kDevices = static_cast<int>(GPUPEAK_LOG_MAX_DEVICES);
/// Whether the page has the device: a log has no place for more.
inline bool has_counters(int device) {
  return static_cast<unsigned>(device) < GPUPEAK_LOG_MAX_DEVICES;
}
/// Live usable bytes of the heap, without what threads have not handed on yet. In a forked child:
/// of what it has allocated itself; 0 if it has freed more of its parent's.
inline uint64_t counted_heap_bytes() {
  const auto live = static_cast<int64_t>(
      std::atomic_ref<uint64_t>(counters().heap.live).load(std::memory_order_relaxed));
  return live > 0 ? static_cast<uint64_t>(live) : 0;
}
/// The gauges' peaks since the window began, each at its gauge's place in the counters page.
extern constinit GPUPEAK_OWN gpupeak_counters_page g_window;
inline uint64_t& window_peak_of(const gpupeak_gauge& gauge) {
  const auto offset = reinterpret_cast<const char*>(&gauge) - reinterpret_cast<char*>(g_counters);
  return reinterpret_cast<gpupeak_gauge*>(reinterpret_cast<char*>(&g_window) + offset)->peak;
}
void count(uint64_t gpupeak_counters_page::*counter, uint64_t by = 1);
void set_quality(uint64_t bit);

/// Adds what a thread has added up since its last call; in between, the sum was at most `high`. The
/// peak is exact as long as no other thread adds.
void gauge_add(gpupeak_gauge& gauge, int64_t bytes, int64_t high);
/// The gauge's peak since the last begin_window(), which leaves the gauge itself alone. Gauges of
/// the counters page only.
uint64_t window_peak(gpupeak_gauge& gauge);
void begin_window(gpupeak_gauge& gauge);

/// Call it when the log is open: its page counts from now on, and begins with the counts so far.
void move_counters_to(gpupeak_counters_page* page);
/// In a forked child, where the parent's page is not ours, or when the log has ended.
void forget_counters();
/// Usable bytes of the heap that were live when counters were forgotten: the child has them, too.
int64_t inherited_heap_bytes();

// Builds one extended record (log_format.h) on the stack, for rare events and definitions: it is
// filled with fields and handed to emit() or define(). HOOK-SAFE.
//
// Varints are written by our own functions: protozero needs std::string, which we do not have here,
// and most values of a log take a store or two without a branch (put_hot_varint()).

inline uint8_t* put_varint(uint8_t* at, uint64_t value) {
  while (value >= 0x80) {
    *at++ = static_cast<uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *at++ = static_cast<uint8_t>(value);
  return at;
}
/// For each place of a value's highest bit: the marks "goes on" of its bytes, and their number.
template <typename Word, size_t kBits>
struct VarintTable {
  static constexpr size_t kMostBits = kBits;
  Word marks[kBits] = {};  ///< of all bytes but the last
  uint8_t bytes[kBits] = {};

  constexpr VarintTable() {
    for (size_t bit = 0; bit < kBits; ++bit) {
      for (size_t byte = 0; byte < bit / 7; ++byte) marks[bit] |= Word{0x80} << 8 * byte;
      bytes[bit] = static_cast<uint8_t>(bit / 7 + 1);
    }
  }
};
inline constexpr VarintTable<uint32_t, 28> kHotVarints;
inline constexpr VarintTable<uint64_t, 56> kWideVarints;

/// `value` is not 0.
inline uint32_t highest_bit_of(uint64_t value) {
  return 63 ^ static_cast<uint32_t>(__builtin_clzll(value));
}

/// put_varint() for hot records. There a length is as good as random, so likely values are written
/// without a branch on it. Stores 4 bytes, zeros behind the value.
inline __attribute__((always_inline)) uint8_t* put_hot_varint(uint8_t* at, uint64_t value) {
  const uint32_t highest_bit = highest_bit_of(value | 1);
  if (__builtin_expect(highest_bit >= kHotVarints.kMostBits, 0)) return put_varint(at, value);
  auto spread = static_cast<uint32_t>(value);
  spread += 3 * (spread & 0x0fffc000);  // two times 14 bits, 16 apart
  spread += spread & 0x3f803f80;        // four times 7
  spread |= kHotVarints.marks[highest_bit];
  memcpy(at, &spread, sizeof spread);
  return at + kHotVarints.bytes[highest_bit];
}
/// The same for up to 56 bits, for addresses and totals of bytes. Stores 1 or 8 bytes, zeros behind
/// the value.
inline __attribute__((always_inline)) uint8_t* put_wide_varint(uint8_t* at, uint64_t value) {
  if (value < 0x80) {
    *at = static_cast<uint8_t>(value);
    return at + 1;
  }
  const uint32_t highest_bit = highest_bit_of(value);
  if (__builtin_expect(highest_bit >= kWideVarints.kMostBits, 0)) return put_varint(at, value);
  value += 15 * (value & 0x00fffffff0000000);  // two times 28 bits, 32 apart
  value += 3 * (value & 0x0fffc0000fffc000);   // four times 14
  value += value & 0x3f803f803f803f80;         // eight times 7
  value |= kWideVarints.marks[highest_bit];
  memcpy(at, &value, sizeof value);
  return at + kWideVarints.bytes[highest_bit];
}
inline uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

class Record {
 public:
  static constexpr size_t kMaxBody = 1536;
  static constexpr size_t kMaxString = 1024;

  /// Fields in the order that log_format.h gives; dt is emit()'s business. A field that does not
  /// fit is left out with all that follow, which a reader takes as zero.
  template <typename... Fields>
  explicit Record(uint8_t tag, const Fields&... fields) : tag_(tag) {
    (add(fields), ...);
  }
  Record& u(uint64_t value) {
    if (bytes_ + 10 <= kMaxBody)
      bytes_ = static_cast<size_t>(put_wide_varint(body_ + bytes_, value) - body_);
    return *this;
  }
  Record& s(std::string_view text) {
    if (text.size() > kMaxString) text = {text.data(), kMaxString};
    if (bytes_ + 10 + text.size() <= kMaxBody) {
      u(text.size());
      memcpy(body_ + bytes_, text.data(), text.size());
      bytes_ += text.size();
    }
    return *this;
  }
  uint8_t tag() const { return tag_; }
  const uint8_t* body() const { return body_; }
  size_t bytes() const { return bytes_; }

 private:
  void add(std::string_view text) { s(text); }
  template <typename Number>
  requires(!std::is_convertible_v<Number, std::string_view>) void add(Number value) {
    u(static_cast<uint64_t>(value));
  }

  uint8_t tag_;
  size_t bytes_ = 0;
  uint8_t body_[kMaxBody];
};

/// Appends to the definitions. Takes the definitions' lock.
void define(const Record& record);
void define_fact(std::string_view key, std::string_view value);
/// Call it when the log can grow again: defines the fact log.gap, the time in which it could not.
/// The caller must not hold the definitions' lock.
void say_log_gap(bool at_end = false);
/// Call it at the log's end: writes the definitions that wait for room.
void end_definitions();
/// The id of `text` in the log's string table, defined at its first use; 0 if that failed.
uint32_t intern_string(std::string_view text);

// The stream of definitions as a value that survives a fork: strings and stack nodes keep their
// ids, so a child's own log can be given all of them again. HOOK-SAFE, inside a HookScope.

/// Held while ids are given out, so that the order in the stream is the order of the ids. Never
/// call into the loader with it held.
FutexLock& definitions_lock();
/// define() for a caller that holds the lock.
void define_locked(const Record& record);
/// A NODE record, for a caller that holds the lock. `distance` and `ip_delta` as in log_format.h.
void define_node_locked(uint32_t distance, int64_t ip_delta);
/// How many nodes were defined whole, even if a jump came right after a definition.
uint64_t defined_nodes_locked();
/// The same without the lock; the number may change meanwhile.
uint64_t defined_nodes();

/// Call it when the log has ended: gives its last chunk back, so that another log may be opened.
void leave_definitions();
/// In a log that was just opened: starts the stream anew. All strings that were known before (from
/// a forked child's parent, or from the log before) are defined again, under their old ids.
void restart_definitions();

}  // namespace gpupeak::preload
