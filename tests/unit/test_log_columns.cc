// Logs as columns: whatever bytes they have, the same come back.
#include <algorithm>
#include <cstring>
#include <random>

#include "catch.h"
#include "collector/log/packed_log.h"
#include "collector/text/error.h"
#include "gpupeak/log_format.h"

using namespace gpupeak::collector;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes joined(const std::vector<Bytes>& blocks, size_t piece) {
  ColumnCutter cutter("x");
  Bytes log;
  const auto join = [&log](const ColumnBlock& block) {
    join_columns(block, "x", [&](const char* bytes, size_t size) {
      log.insert(log.end(), bytes, bytes + size);
    });
  };
  for (const Bytes& block : blocks) {
    for (size_t at = 0; at < block.size(); at += piece) {
      cutter.take(reinterpret_cast<const char*>(block.data()) + at,
                  std::min(piece, block.size() - at), join);
    }
  }
  cutter.finish();
  return log;
}

std::vector<Bytes> split(const Bytes& log) {
  std::vector<Bytes> blocks;
  for (size_t at = 0; at < log.size();) {
    const size_t bytes = stretch_bytes(log, at);
    blocks.push_back(split_columns(std::span(log).subspan(at, bytes)));
    at += bytes;
  }
  return blocks;
}

void comes_back(const Bytes& log) {
  const std::vector<Bytes> blocks = split(log);
  CHECK(joined(blocks, 1 << 20) == log);
  CHECK(joined(blocks, 777) == log);
}

/// Pages, some of them chunks of events with records that are whole, odd, or none at all.
class OddLog {
 public:
  explicit OddLog(uint32_t seed) : random_(seed) {}

  Bytes make(size_t chunks) {
    Bytes log;
    for (size_t i = 0; i < chunks; ++i) {
      if (below(4) == 0) {
        for (uint32_t left = below(9000); left > 0; --left) log.push_back(any());
        log.resize((log.size() + GPUPEAK_LOG_PAGE - 1) / GPUPEAK_LOG_PAGE * GPUPEAK_LOG_PAGE);
      } else {
        add_chunk(log);
      }
    }
    if (below(2) == 0) log.resize(log.size() - below(5000) % log.size());
    return log;
  }

 private:
  uint32_t below(uint32_t limit) { return random_() % limit; }
  uint8_t any() { return static_cast<uint8_t>(random_()); }
  void varint(Bytes& to, uint64_t value) {
    for (; value >= 0x80; value >>= 7) to.push_back(static_cast<uint8_t>(value | 0x80));
    if (below(50) == 0) {  // longer than it need be
      to.push_back(static_cast<uint8_t>(value | 0x80));
      value = 0;
    }
    to.push_back(static_cast<uint8_t>(value));
  }

  void add_chunk(Bytes& log) {
    gpupeak_chunk_header header{};
    header.magic = GPUPEAK_CHUNK_MAGIC;
    header.kind = GPUPEAK_CHUNK_EVENTS;
    header.bytes = GPUPEAK_LOG_PAGE * (1 + below(4));
    Bytes chunk(sizeof header);
    memcpy(chunk.data(), &header, sizeof header);
    const size_t filled = below(3) == 0 ? header.bytes : below(header.bytes);
    while (chunk.size() < filled) add_record(chunk);
    chunk.resize(header.bytes);  // which may cut a record
    log.insert(log.end(), chunk.begin(), chunk.end());
  }

  void add_record(Bytes& to) {
    switch (below(40)) {
      case 0:
        return to.push_back(any());
      case 1: {  // extended
        const uint32_t bytes = below(40);
        to.push_back(0x80 | any());
        varint(to, bytes);
        for (uint32_t i = 0; i < bytes; ++i) to.push_back(any());
        return;
      }
      default: {
        const auto type = static_cast<uint8_t>(1 + below(5));
        const uint8_t flags =
            (below(3) == 0 ? GPUPEAK_TAG_TIMED : 0) | (below(6) == 0 ? GPUPEAK_TAG_UNALIGNED : 0);
        to.push_back(type | flags);
        if ((flags & GPUPEAK_TAG_TIMED) != 0) varint(to, below(1000));
        varint(to, below(5) == 0 ? uint64_t{random_()} << below(33) : below(20));
        if (type != GPUPEAK_REC_ALLOC && type != GPUPEAK_REC_REALLOC_END) return;
        varint(to, 8 * below(20));
        varint(to, below(16));
        varint(to, below(300));
      }
    }
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("log_columns: any bytes come back", "[collector]") {
  for (uint32_t seed = 0; seed < 40; ++seed) comes_back(OddLog(seed).make(1 + seed % 40));
  comes_back({0});
  comes_back(Bytes(4095, 7));
  comes_back(Bytes(1'500'000));
}

TEST_CASE("log_columns: blocks that are damaged are refused or read, and no more", "[collector]") {
  std::mt19937 random(1);
  size_t refused = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    std::vector<Bytes> blocks = split(OddLog(seed % 50).make(8));
    Bytes& block = blocks.front();
    if (block.empty()) continue;
    for (uint32_t i = 0; i <= random() % 8; ++i)
      block[random() % (seed % 3 == 0 ? std::min<size_t>(52, block.size()) : block.size())] =
          static_cast<uint8_t>(random());
    if (seed % 5 == 0) block.resize(random() % block.size());
    try {
      joined(blocks, 1 << 20);
    } catch (const LogError&) {
      ++refused;
    }
  }
  CHECK(refused > 15);
}

TEST_CASE("log_columns: a block that gives more or less than it says is refused", "[collector]") {
  const Bytes log = OddLog(7).make(8);
  for (const int more : {-1, 1, 4096}) {
    std::vector<Bytes> blocks = split(log);
    uint32_t says;
    memcpy(&says, blocks.front().data(), sizeof says);
    says += static_cast<uint32_t>(more);
    memcpy(blocks.front().data(), &says, sizeof says);
    CHECK_THROWS_AS(joined(blocks, 1 << 20), LogError);
  }
}
