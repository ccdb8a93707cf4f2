// The order of events, whoever decodes them: the log is long enough that a thread of its own does
// where there are several processors.
#include <array>
#include <span>
#include <stdexcept>
#include <string>

#include "catch.h"
#include "collector/log/byte_reader.h"
#include "collector/log/event_stream.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kEvents = 400'000;
constexpr uint32_t kSlots = 5;

/// Slots take turns, some for longer. An event's size is its number in their true order.
void write_turns(const std::string& path) {
  LogBuilder log;
  log.set_chunk_bytes(64 << 10);
  for (uint64_t i = 0; i < kEvents; ++i) {
    const auto slot = static_cast<uint32_t>(i % 7 < 3 ? i % 7 : i / 100 % kSlots);
    log.alloc(slot, 100 + 10 * i, 0x1000 + 64 * i, i, 0);
  }
  log.save(path);
}

struct Order {
  uint64_t stop_at = UINT64_MAX;
  uint64_t seen = 0;
  void take(const Event& event) {
    if (seen == stop_at) throw std::runtime_error("enough");
    if (event.size != seen) throw std::runtime_error("out of order");
    ++seen;
  }
};

/// Notes on each event its number and one more.
struct EventNumbers {
  Order order;
  void operator()(std::span<const Event> events, std::span<uint32_t> notes) {
    for (size_t i = 0; i < events.size(); ++i) {
      order.take(events[i]);
      notes[i] = static_cast<uint32_t>(order.seen);
    }
  }
};

}  // namespace

TEST_CASE("event_stream: all events of all slots come in the order of their stamps",
          "[collector]") {
  const TemporaryFile file;
  write_turns(file.path());
  const LogReader reader(file.path());
  EventStream stream(reader);
  Order order;
  stream.run([&order](std::span<const Event> events, std::span<const uint32_t> notes) {
    if (!notes.empty()) throw std::runtime_error("nobody makes notes");
    for (const Event& event : events) order.take(event);
  });
  CHECK(order.seen == kEvents);
  CHECK(stream.counts().events == kEvents);
}

TEST_CASE("event_stream: what a visitor throws reaches the caller, wherever decoding stands",
          "[collector]") {
  const TemporaryFile file;
  write_turns(file.path());
  const LogReader reader(file.path());
  for (const uint64_t at : {0, 1, 2047, 2048, 10'000, 399'999}) {
    EventStream stream(reader, {}, EventNumbers());
    Order order{.stop_at = at};
    const auto take = [&order](std::span<const Event> events, std::span<const uint32_t> /*notes*/) {
      for (const Event& event : events) order.take(event);
    };
    CHECK_THROWS_AS(stream.run(take), std::runtime_error);
    CHECK(order.seen == at);
  }
}

TEST_CASE("event_stream: a pass sees all events first, on however many processors", "[collector]") {
  const TemporaryFile file;
  write_turns(file.path());
  const LogReader reader(file.path());
  for (const size_t processors : {1, 2, 3, 4, 16}) {
    EventStream stream(reader, {}, EventNumbers(), processors);
    Order order;
    stream.run([&order](std::span<const Event> events, std::span<const uint32_t> notes) {
      for (size_t i = 0; i < events.size(); ++i) {
        order.take(events[i]);
        REQUIRE(notes[i] == order.seen);
      }
    });
    CHECK(order.seen == kEvents);
    CHECK(stream.counts().events == kEvents);
  }
}

TEST_CASE("event_stream: what a pass throws reaches the caller where it threw", "[collector]") {
  const TemporaryFile file;
  write_turns(file.path());
  const LogReader reader(file.path());
  for (const size_t processors : {1, 2, 16}) {
    for (const uint64_t at : {uint64_t{0}, uint64_t{50'000}, kEvents - 1}) {
      EventNumbers numbers;
      numbers.order.stop_at = at;
      EventStream stream(reader, {}, numbers, processors);
      uint64_t seen = 0;
      const auto take = [&](const auto& events, const auto& /*notes*/) { seen += events.size(); };
      CHECK_THROWS_AS(stream.run(take), std::runtime_error);
      CHECK(seen <= at);
    }
  }
}

TEST_CASE("byte_reader: varints of any length are read alike with and without bounds",
          "[collector]") {
  for (unsigned bits = 0; bits <= 64; ++bits) {
    for (const uint64_t spread : {UINT64_MAX, UINT64_C(0x5555555555555555), UINT64_C(1)}) {
      const uint64_t written = bits == 0 ? 0 : spread >> (64 - bits) | UINT64_C(1) << (bits - 1);
      std::array<uint8_t, 2 * kVarintBytes> bytes;
      bytes.fill(0xff);
      size_t length = 0;
      uint64_t rest = written;
      for (; rest >= 0x80; rest >>= 7) bytes[length++] = static_cast<uint8_t>(rest | 0x80);
      bytes[length++] = static_cast<uint8_t>(rest);
      uint64_t bounded = 0, inner = 0;
      const uint8_t* end = bytes.data() + length;
      REQUIRE(read_varint(bytes.data(), end, bounded) == end);
      REQUIRE(read_inner_varint(bytes.data(), inner) == end);
      CHECK(bounded == written);
      CHECK(inner == written);
      CHECK(read_varint(bytes.data(), end - 1, bounded) == nullptr);
    }
  }
  std::array<uint8_t, 2 * kVarintBytes> endless;
  endless.fill(0xff);
  uint64_t value = 0;
  CHECK(read_inner_varint(endless.data(), value) == nullptr);
}
