// Writes valid logs for tests and benchmarks, as the preload would write them, without a program.
// Times are nanoseconds since the log's start; a tick is a nanosecond.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpupeak/memory_kinds.h"

namespace gpupeak::testing {

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;  ///< a device block `id` lies at `id` MiB
constexpr uint64_t kOneSecond = 1'000'000'000;      ///< in nanoseconds

/// A reading of the memory that the driver says is in use. `api` and `name` are ids of strings.
struct DriverReading {
  uint64_t used = 0;
  gpupeak_ledger_cause cause = GPUPEAK_LEDGER_NONE;
  int device = 0;
  gpupeak_reading_source source = GPUPEAK_READING_NVML;
  std::optional<uint64_t> reserved = {}, own = {}, others = {};
  uint64_t overlaps = 0;
  bool uncertain = false;
  uint32_t api = 0, name = 0, stack = 0;
  struct Process {
    uint32_t pid, name;
    uint64_t bytes;
  };
  std::vector<Process> processes = {};
};

/// The fields of one record's body.
class Fields {
 public:
  Fields& u(uint64_t value);
  Fields& z(int64_t value);
  Fields& s(std::string_view text);
  Fields& raw(const Fields& other);
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

class LogBuilder {
 public:
  static constexpr uint64_t kStart = 1'000'000;  // ticks of time 0

  explicit LogBuilder(uint32_t host_mode = GPUPEAK_HOST_FULL);

  gpupeak_file_header& header() { return header_; }
  gpupeak_counters_page& counters() { return counters_; }
  void set_chunk_bytes(size_t bytes) { chunk_bytes_ = bytes; }
  /// Heap events in chunks of their own, as logs have them since 2026-11-25. Then a heap event of a
  /// slot must not have the same time as another event of that slot.
  void set_heap_apart(bool apart) { heap_is_apart_ = apart; }

  // Definitions; each returns its id.
  uint32_t node(uint32_t parent, uint64_t ip);
  uint32_t string(std::string_view text);
  uint32_t module(std::string_view path, std::string_view build_id, uint64_t bias, uint64_t address,
                  uint64_t bytes);
  void unload(uint32_t module);
  void python_frame(uint32_t function, uint32_t file, uint64_t line);
  void fact(std::string_view key, std::string_view value);
  /// `memory`: GPUPEAK_MEMORY_*; none: as in logs from before there was that field.
  void device(uint64_t ordinal, uint64_t total_bytes, std::string_view uuid, std::string_view name,
              std::optional<uint64_t> memory = {});

  // Events of `slot`, whose thread is slot + 100. Times within a slot must not run backwards.
  void alloc(uint32_t slot, uint64_t time, uint64_t address, uint64_t size, uint32_t stack = 0,
             int64_t slack = 0);
  void free(uint32_t slot, uint64_t time, uint64_t address);
  void realloc_begin(uint32_t slot, uint64_t time, uint64_t address);
  void realloc_end(uint32_t slot, uint64_t time, uint64_t address, uint64_t size,
                   uint32_t stack = 0, int64_t slack = 0);
  void realloc_failed(uint32_t slot, uint64_t time, uint64_t address);
  /// Has no time stamp: its time is that of the record before.
  void alloc_unstamped(uint32_t slot, uint64_t address, uint64_t size, uint32_t stack = 0);
  void event(uint32_t slot, uint64_t time, uint8_t tag, const Fields& fields);
  void map(uint32_t slot, uint64_t time, uint64_t address, uint64_t bytes, uint32_t prot,
           uint32_t kind = GPUPEAK_KIND_MMAP_ANON, uint32_t stack = 0);
  void unmap(uint32_t slot, uint64_t time, uint64_t address, uint64_t bytes);
  void phase_push(uint32_t slot, uint64_t time, bool of_process, uint32_t name,
                  uint32_t source = GPUPEAK_PHASE_API);
  void phase_pop(uint32_t slot, uint64_t time, bool of_process);
  /// Numbers device events from 1 in the order of the calls.
  void device_alloc(uint32_t slot, uint64_t time, uint64_t id, uint32_t kind, int device,
                    uint64_t bytes, uint32_t api = 0, uint32_t stack = 0, uint64_t context = 0);
  void device_free(uint32_t slot, uint64_t time, uint64_t id);
  void device_event(uint32_t slot, uint64_t time, uint8_t tag, const Fields& after_sequence);
  /// The record at `time` says when the block was seen used: `count` times, from `first` to `last`,
  /// and for the longest time not used from `idle_from` to `idle_to`. `arena` 0: a block of the
  /// driver.
  void used(uint32_t slot, uint64_t time, uint64_t arena, uint64_t block, uint64_t count,
            uint64_t first, uint64_t last, uint64_t idle_from = 0, uint64_t idle_to = 0);
  void driver_reading(uint32_t slot, uint64_t time, const DriverReading& reading);
  /// The next device event gets this number.
  void set_sequence(uint64_t sequence) { sequence_ = sequence; }

  /// The whole file as it would be on disk.
  std::vector<uint8_t> bytes();
  /// Writes bytes() to a file; returns `path`.
  std::string save(const std::string& path);

 private:
  struct Chunk {
    gpupeak_chunk_header header{};
    std::vector<uint8_t> records;
  };
  struct Slot {
    std::vector<Chunk> chunks;
    uint64_t ticks = 0;
    uint64_t address = 0;
  };
  Slot& room(uint32_t slot, bool of_heap, uint64_t time);
  void hot(uint32_t slot, uint64_t time, uint8_t type, uint64_t address, bool timed,
           const Fields& rest);
  void define(uint8_t tag, const Fields& fields);

  gpupeak_file_header header_{};
  gpupeak_counters_page counters_{};
  size_t chunk_bytes_ = 64 << 10;
  bool heap_is_apart_ = false;
  std::map<std::pair<uint32_t, bool>, Slot> slots_;  // by number, and whether it is the heap's
  Slot definitions_;
  uint64_t last_ip_ = 0;
  uint32_t nodes_ = 0, strings_ = 0, modules_ = 0;
  uint64_t sequence_ = 1;
  uint64_t last_time_ = 0;
};

/// A file that is removed with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& ending = "");
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  void write(const std::vector<uint8_t>& bytes) const;

 private:
  std::string path_;
};

}  // namespace gpupeak::testing
