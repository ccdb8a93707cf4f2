// The properties of each kind of memory (memory_kinds.def), for both sides. The rule of sums is
// here alone: a device's total is the sum of its kinds that are in_sum.
//
//   a block of kind VMM on GPU 0     → scope "device:0/vmm" and, since it is in_sum, "device:0"
//   a block of kind IMPORTED there   → scope "device:0/imported" alone
//
// HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "gpupeak/log_format.h"

namespace gpupeak {

struct MemoryKind {
  enum class Side : uint8_t { Host, Device };
  enum class InSum : uint8_t { No, Yes };
  enum class Counter : uint8_t { None, Threads, Pinned, Registered, Device, Managed };
  enum class Place : uint8_t { None, Own, Mapped };
  enum class Rounding : uint8_t { None, Pages, Reserve };
  enum class End : uint8_t { Free, Context };

  std::string_view path;  ///< "host.heap", "device.linear"; empty: no kind has this number
  std::string_view text;
  InSum in_sum = InSum::No;
  Counter counter = Counter::None;
  Place place = Place::None;
  Rounding rounding = Rounding::None;
  End end = End::Free;
};

namespace memory_kinds {

struct Table {
  MemoryKind rows[GPUPEAK_KIND_LIMIT]{};
};

// Kinds below 16 are the host's, all others a device's. A kind's path begins with its side's name.
#define GPUPEAK_SIDE_Host "host."
#define GPUPEAK_SIDE_Device "device."
constexpr Table make_table() {
  Table table;
#define GPUPEAK_MEMORY_KIND(NAME, number, SIDE, name, IN_SUM, COUNTER, PLACE, ROUNDING, END, text) \
  static_assert((MemoryKind::Side::SIDE == MemoryKind::Side::Device) ==                            \
                (number >= GPUPEAK_FIRST_DEVICE_KIND));                                            \
  table.rows[number] = {GPUPEAK_SIDE_##SIDE name,  text,                                           \
                        MemoryKind::InSum::IN_SUM, MemoryKind::Counter::COUNTER,                   \
                        MemoryKind::Place::PLACE,  MemoryKind::Rounding::ROUNDING,                 \
                        MemoryKind::End::END};
#include "gpupeak/memory_kinds.def"
#undef GPUPEAK_MEMORY_KIND
  return table;
}
#undef GPUPEAK_SIDE_Host
#undef GPUPEAK_SIDE_Device
inline constexpr Table kTable = make_table();

constexpr uint32_t bits_of_sum() {
  uint32_t bits = 0;
  for (uint32_t kind = 0; kind < GPUPEAK_KIND_LIMIT; ++kind) {
    if (kTable.rows[kind].in_sum == MemoryKind::InSum::Yes) bits |= 1u << kind;
  }
  return bits;
}
inline constexpr uint32_t kInSum = bits_of_sum();

/// In a table of its own: the rows have pointers, which the loader has to fill in.
struct Counters {
  MemoryKind::Counter of[GPUPEAK_KIND_LIMIT]{};
};
constexpr Counters make_counters() {
  Counters counters;
  for (uint32_t kind = 0; kind < GPUPEAK_KIND_LIMIT; ++kind)
    counters.of[kind] = kTable.rows[kind].counter;
  return counters;
}
inline constexpr Counters kCounters = make_counters();

/// Kinds that move the gauge of their kind and their device's sum, and nothing else. Nearly all
/// events are of these kinds. A device's kind in the sum must be one of them, since no other moves
/// the sum; tests/unit/test_memory_kinds.cc checks that its counter is Device.
constexpr uint32_t plain_bits() {
  uint32_t bits = 0;
  for (uint32_t kind = GPUPEAK_FIRST_DEVICE_KIND; kind < GPUPEAK_KIND_LIMIT; ++kind) {
    const bool is_first = kind - GPUPEAK_FIRST_DEVICE_KIND < GPUPEAK_FIRST_KINDS;
    const bool is_counted = kCounters.of[kind] == MemoryKind::Counter::Device;
    if (is_first && is_counted && (kInSum >> kind & 1) != 0) bits |= 1u << kind;
  }
  return bits;
}
constexpr bool is_plain(uint32_t kind) {
  return (plain_bits() >> (kind & 31) & 1) != 0;
}

}  // namespace memory_kinds

/// A number that names no kind gives a row without a path, in no sum and with no gauge.
constexpr const MemoryKind& memory_kind(uint64_t number) {
  return memory_kinds::kTable.rows[number < GPUPEAK_KIND_LIMIT ? number : 0];
}
constexpr bool is_device_kind(uint64_t kind) {
  return kind >= GPUPEAK_FIRST_DEVICE_KIND && kind < GPUPEAK_KIND_LIMIT;
}
/// Whether a kind counts into its device's peak, or the host's. Others are gauges of their own.
constexpr bool counts_into_sum(uint64_t kind) {
  return kind < GPUPEAK_KIND_LIMIT && (memory_kinds::kInSum >> kind & 1) != 0;
}

/// The gauge of a device's kind in a counters page. `device` < GPUPEAK_LOG_MAX_DEVICES; `kind` is a
/// device's. The gauge is const if the page is.
template <typename Page>
constexpr auto& device_gauge(Page& page, uint32_t device, uint32_t kind) {
  static_assert(std::is_same_v<std::remove_const_t<Page>, gpupeak_counters_page>);
  const uint32_t place = kind - GPUPEAK_FIRST_DEVICE_KIND;
  return place < GPUPEAK_FIRST_KINDS ? page.device[device].kind[place]
                                     : page.more_kinds[device][place - GPUPEAK_FIRST_KINDS];
}

/// How many bytes of the counters page a log has. Older logs end before more_kinds: read them into
/// a page of zeros.
constexpr size_t counters_bytes(const gpupeak_file_header& header) {
  const uint64_t room = header.chunks_offset - header.counters_offset;
  const bool is_short = room >= GPUPEAK_LOG_PAGE && room < sizeof(gpupeak_counters_page);
  return is_short ? static_cast<size_t>(room) : sizeof(gpupeak_counters_page);
}

}  // namespace gpupeak
