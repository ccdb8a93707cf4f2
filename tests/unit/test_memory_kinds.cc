// What memory_kinds.def says of each kind, and where the counters page has it.
#include <set>

#include "catch.h"
#include "collector/log/kinds.h"

using namespace gpupeak;
using namespace gpupeak::collector;

TEST_CASE("memory kinds: a number that names none is in no sum and moves no gauge", "[collector]") {
  for (uint64_t number = 0; number <= 1000; ++number) {
    if (number < GPUPEAK_KIND_LIMIT && !kind_path(static_cast<uint8_t>(number)).empty()) continue;
    CHECK(checked_kind(number) == GPUPEAK_KIND_NONE);
    CHECK_FALSE(counts_into_sum(number));
    CHECK(memory_kind(number).counter == MemoryKind::Counter::None);
  }
}

TEST_CASE("memory kinds: their names are unique, and say on which side they are", "[collector]") {
  std::set<std::string_view> paths;
  for (uint8_t kind = 0; kind < GPUPEAK_KIND_LIMIT; ++kind) {
    const std::string_view path = kind_path(kind);
    if (path.empty()) continue;
    CHECK(checked_kind(kind) == kind);
    CHECK(paths.insert(path).second);
    CHECK(path.starts_with(is_device_kind(kind) ? "device." : "host."));
    CHECK_FALSE(memory_kind(kind).text.empty());
    // What counts into a device's sum has a gauge there, or the total would be more than its parts.
    if (is_device_kind(kind) && counts_into_sum(kind))
      CHECK(memory_kind(kind).counter == MemoryKind::Counter::Device);
  }
  CHECK(paths.size() >= 16);
}

TEST_CASE("memory kinds: each of sixteen on a device has a gauge of its own", "[collector]") {
  gpupeak_counters_page page{};
  std::set<const gpupeak_gauge*> gauges;
  for (uint32_t device = 0; device < GPUPEAK_LOG_MAX_DEVICES; ++device) {
    for (uint32_t kind = GPUPEAK_FIRST_DEVICE_KIND; kind < GPUPEAK_KIND_LIMIT; ++kind)
      CHECK(gauges.insert(&device_gauge(page, device, kind)).second);
    CHECK_FALSE(gauges.contains(&page.device[device].total));
  }
  CHECK(gauges.size() == GPUPEAK_LOG_MAX_DEVICES * GPUPEAK_DEVICE_KINDS);
}

TEST_CASE("counters: of a log with one page of them no more is read", "[collector]") {
  gpupeak_file_header header{};
  header.counters_offset = GPUPEAK_LOG_PAGE;
  header.chunks_offset = 2 * GPUPEAK_LOG_PAGE;
  CHECK(counters_bytes(header) == GPUPEAK_LOG_PAGE);
  header.chunks_offset = 3 * GPUPEAK_LOG_PAGE;
  CHECK(counters_bytes(header) == sizeof(gpupeak_counters_page));
  header.chunks_offset = 16 * GPUPEAK_LOG_PAGE;  // where pages have 64 KiB
  CHECK(counters_bytes(header) == sizeof(gpupeak_counters_page));
  header.chunks_offset = 0;  // damaged
  CHECK(counters_bytes(header) == sizeof(gpupeak_counters_page));
}
