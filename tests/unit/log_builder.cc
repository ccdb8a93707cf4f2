#include "log_builder.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace gpupeak::testing {
namespace {

constexpr uint64_t kCookie = 0x1122334455667788;
constexpr uint32_t kFirstTid = 100;

void append(std::vector<uint8_t>& to, const std::vector<uint8_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// For tests that look at all logs of other tests: GPUPEAK_KEEP_LOGS names a folder.
void keep_copy(const std::string& path) {
  static std::atomic<int> number{0};
  const char* folder = getenv("GPUPEAK_KEEP_LOGS");
  if (folder == nullptr) return;
  const std::string name = std::to_string(getpid()) + "-" + std::to_string(++number) + ".gplog";
  std::filesystem::copy_file(path, std::filesystem::path(folder) / name);
}

}  // namespace

Fields& Fields::u(uint64_t value) {
  while (value >= 0x80) {
    bytes_.push_back(static_cast<uint8_t>(value) | 0x80);
    value >>= 7;
  }
  bytes_.push_back(static_cast<uint8_t>(value));
  return *this;
}

Fields& Fields::z(int64_t value) {
  return u((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
}

Fields& Fields::s(std::string_view text) {
  u(text.size());
  bytes_.insert(bytes_.end(), text.begin(), text.end());
  return *this;
}

Fields& Fields::raw(const Fields& other) {
  append(bytes_, other.bytes_);
  return *this;
}

LogBuilder::LogBuilder(uint32_t host_mode) {
  header_.magic = GPUPEAK_LOG_MAGIC;
  header_.version = GPUPEAK_LOG_VERSION;
  header_.header_bytes = GPUPEAK_LOG_PAGE;
  header_.cookie = kCookie;
  header_.counters_offset = GPUPEAK_LOG_PAGE;
  header_.chunks_offset = 2 * GPUPEAK_LOG_PAGE;
  header_.clock = GPUPEAK_CLOCK_MONOTONIC_NS;
  header_.host_mode = host_mode;
  header_.start_ticks = kStart;
  header_.start_monotonic_ns = kStart;
  header_.start_realtime_ns = 1'767'607'200'000'000'000;  // 2026-01-05T10:00:00Z
  header_.pid = 4242;
  header_.ppid = 4100;
  header_.rank = -1;
  strcpy(header_.tool_version, "0.1.0");
  counters_.ended = 1;
  counters_.exit_kind = GPUPEAK_EXIT_CODE;
}

LogBuilder::Slot& LogBuilder::room(uint32_t number, bool of_heap, uint64_t time) {
  of_heap = of_heap && heap_is_apart_;
  Slot& slot = slots_[{number, of_heap}];
  const size_t used = slot.chunks.empty() ? chunk_bytes_ : slot.chunks.back().records.size();
  if (used + sizeof(gpupeak_chunk_header) + 256 > chunk_bytes_) {
    Chunk chunk;
    chunk.header.kind = of_heap ? GPUPEAK_CHUNK_HEAP : GPUPEAK_CHUNK_EVENTS;
    chunk.header.slot = number;
    chunk.header.sequence = slot.chunks.size();
    chunk.header.start_ticks = chunk.header.start_monotonic_ns = kStart + time;
    chunk.header.tid = kFirstTid + number;
    slot.chunks.push_back(std::move(chunk));
    slot.ticks = kStart + time;
    slot.address = 0;
  }
  last_time_ = std::max(last_time_, time);
  return slot;
}

void LogBuilder::hot(uint32_t number, uint64_t time, uint8_t type, uint64_t address, bool timed,
                     const Fields& rest) {
  Slot& slot = room(number, true, time);
  std::vector<uint8_t>& records = slot.chunks.back().records;
  Fields fields;
  uint8_t tag = type;
  if (timed) {
    tag |= GPUPEAK_TAG_TIMED;
    fields.u(kStart + time - slot.ticks);
    slot.ticks = kStart + time;
  }
  if (address % 16 == 0) {
    fields.z(static_cast<int64_t>((address >> 4) - (slot.address >> 4)));
  } else {
    tag |= GPUPEAK_TAG_UNALIGNED;
    fields.z(static_cast<int64_t>(address - slot.address));
  }
  slot.address = address;
  records.push_back(tag);
  append(records, fields.bytes());
  append(records, rest.bytes());
}

void LogBuilder::alloc(uint32_t slot, uint64_t time, uint64_t address, uint64_t size,
                       uint32_t stack, int64_t slack) {
  hot(slot, time, GPUPEAK_REC_ALLOC, address, true, Fields().u(size).z(slack).u(stack));
}

void LogBuilder::free(uint32_t slot, uint64_t time, uint64_t address) {
  hot(slot, time, GPUPEAK_REC_FREE, address, true, Fields());
}

void LogBuilder::realloc_begin(uint32_t slot, uint64_t time, uint64_t address) {
  hot(slot, time, GPUPEAK_REC_REALLOC_BEGIN, address, true, Fields());
}

void LogBuilder::realloc_end(uint32_t slot, uint64_t time, uint64_t address, uint64_t size,
                             uint32_t stack, int64_t slack) {
  hot(slot, time, GPUPEAK_REC_REALLOC_END, address, true, Fields().u(size).z(slack).u(stack));
}

void LogBuilder::realloc_failed(uint32_t slot, uint64_t time, uint64_t address) {
  hot(slot, time, GPUPEAK_REC_REALLOC_FAILED, address, true, Fields());
}

void LogBuilder::alloc_unstamped(uint32_t slot, uint64_t address, uint64_t size, uint32_t stack) {
  hot(slot, slots_[{slot, heap_is_apart_}].ticks - kStart, GPUPEAK_REC_ALLOC, address, false,
      Fields().u(size).z(0).u(stack));
}

void LogBuilder::event(uint32_t number, uint64_t time, uint8_t tag, const Fields& fields) {
  Slot& slot = room(number, tag == GPUPEAK_REC_SAMPLING, time);
  std::vector<uint8_t>& records = slot.chunks.back().records;
  Fields dt;
  dt.u(kStart + time - slot.ticks);
  slot.ticks = kStart + time;
  records.push_back(tag);
  append(records, Fields().u(dt.bytes().size() + fields.bytes().size()).bytes());
  append(records, dt.bytes());
  append(records, fields.bytes());
}

void LogBuilder::map(uint32_t slot, uint64_t time, uint64_t address, uint64_t bytes, uint32_t prot,
                     uint32_t kind, uint32_t stack) {
  event(slot, time, GPUPEAK_REC_MAP, Fields().u(address).u(bytes).u(prot).u(kind).u(stack));
}

void LogBuilder::unmap(uint32_t slot, uint64_t time, uint64_t address, uint64_t bytes) {
  event(slot, time, GPUPEAK_REC_UNMAP, Fields().u(address).u(bytes));
}

void LogBuilder::phase_push(uint32_t slot, uint64_t time, bool of_process, uint32_t name,
                            uint32_t source) {
  event(slot, time, GPUPEAK_REC_PHASE_PUSH, Fields().u(of_process).u(source).u(name));
}

void LogBuilder::phase_pop(uint32_t slot, uint64_t time, bool of_process) {
  event(slot, time, GPUPEAK_REC_PHASE_POP, Fields().u(of_process));
}

void LogBuilder::device_event(uint32_t slot, uint64_t time, uint8_t tag,
                              const Fields& after_sequence) {
  event(slot, time, tag, Fields().u(sequence_++).raw(after_sequence));
}

void LogBuilder::device_alloc(uint32_t slot, uint64_t time, uint64_t id, uint32_t kind, int device,
                              uint64_t bytes, uint32_t api, uint32_t stack, uint64_t context) {
  device_event(slot, time, GPUPEAK_REC_DEVICE_ALLOC,
               Fields()
                   .u(id)
                   .u(kind)
                   .u(static_cast<uint64_t>(device + 1))
                   .u(id << 20)
                   .u(bytes)
                   .u(api)
                   .u(stack)
                   .u(context)
                   .u(0));
}

void LogBuilder::device_free(uint32_t slot, uint64_t time, uint64_t id) {
  device_event(slot, time, GPUPEAK_REC_DEVICE_FREE, Fields().u(id).u(0).u(0));
}

void LogBuilder::used(uint32_t slot, uint64_t time, uint64_t arena, uint64_t block, uint64_t count,
                      uint64_t first, uint64_t last, uint64_t idle_from, uint64_t idle_to) {
  event(slot, time, GPUPEAK_REC_USED,
        Fields()
            .u(arena)
            .u(block)
            .u(count)
            .u(count > 0 ? time - first : 0)
            .u(count > 0 ? time - last : 0)
            .u(idle_to - idle_from)
            .u(idle_to > 0 ? time - idle_from : 0)
            .u(1));
}

void LogBuilder::driver_reading(uint32_t slot, uint64_t time, const DriverReading& reading) {
  const auto plus_1 = [](std::optional<uint64_t> value) { return value ? *value + 1 : 0; };
  Fields fields;
  fields.u(static_cast<uint64_t>(reading.device + 1))
      .u(reading.used)
      .u(reading.source)
      .u(reading.cause)
      .u(plus_1(reading.reserved))
      .u(plus_1(reading.own))
      .u(plus_1(reading.others))
      .u(reading.overlaps)
      .u(reading.uncertain)
      .u(reading.api)
      .u(reading.name)
      .u(reading.stack)
      .u(reading.processes.size());
  for (const DriverReading::Process& process : reading.processes)
    fields.u(process.pid).u(process.bytes).u(process.name);
  event(slot, time, GPUPEAK_REC_DRIVER_READING, fields);
}

void LogBuilder::define(uint8_t tag, const Fields& fields) {
  std::vector<Chunk>& chunks = definitions_.chunks;
  const size_t needed = sizeof(gpupeak_chunk_header) + fields.bytes().size() + 16;
  if (chunks.empty() || chunks.back().records.size() + needed > chunk_bytes_) {
    Chunk chunk;
    chunk.header.kind = GPUPEAK_CHUNK_DEFINITIONS;
    chunk.header.sequence = chunks.size();
    chunk.header.start_ticks = chunk.header.start_monotonic_ns = kStart;
    chunks.push_back(std::move(chunk));
  }
  std::vector<uint8_t>& records = chunks.back().records;
  records.push_back(tag);
  append(records, Fields().u(fields.bytes().size()).bytes());
  append(records, fields.bytes());
}

uint32_t LogBuilder::node(uint32_t parent, uint64_t ip) {
  const uint32_t id = ++nodes_;
  define(GPUPEAK_DEF_NODE, Fields().u(id - parent).z(static_cast<int64_t>(ip - last_ip_)));
  last_ip_ = ip;
  return id;
}

void LogBuilder::python_frame(uint32_t function, uint32_t file, uint64_t line) {
  define(GPUPEAK_DEF_PYTHON_FRAME, Fields().u(function).u(file).u(line));
}

uint32_t LogBuilder::string(std::string_view text) {
  define(GPUPEAK_DEF_STRING, Fields().s(text));
  return ++strings_;
}

uint32_t LogBuilder::module(std::string_view path, std::string_view build_id, uint64_t bias,
                            uint64_t address, uint64_t bytes) {
  define(GPUPEAK_DEF_MODULE,
         Fields().u(kStart).u(bias).s(path).s(build_id).u(1).u(address).u(bytes).u(0));
  return ++modules_;
}

void LogBuilder::unload(uint32_t module) {
  define(GPUPEAK_DEF_UNLOAD, Fields().u(kStart).u(module));
}

void LogBuilder::fact(std::string_view key, std::string_view value) {
  define(GPUPEAK_DEF_FACT, Fields().s(key).s(value));
}

void LogBuilder::device(uint64_t ordinal, uint64_t total_bytes, std::string_view uuid,
                        std::string_view name, std::optional<uint64_t> memory) {
  Fields fields = Fields().u(ordinal).u(total_bytes).s(uuid).s(name);
  define(GPUPEAK_DEF_DEVICE, memory ? fields.u(*memory) : fields);
}

std::vector<uint8_t> LogBuilder::bytes() {
  std::vector<uint8_t> file(2 * GPUPEAK_LOG_PAGE);
  const auto add = [&](const Chunk& chunk) {
    const size_t offset = file.size();
    const size_t bytes = sizeof chunk.header + chunk.records.size();
    file.resize(offset + (bytes + GPUPEAK_LOG_PAGE - 1) / GPUPEAK_LOG_PAGE * GPUPEAK_LOG_PAGE);
    gpupeak_chunk_header header = chunk.header;
    header.magic = GPUPEAK_CHUNK_MAGIC;
    header.bytes = static_cast<uint32_t>(file.size() - offset);
    header.check = header_.cookie ^ offset;
    memcpy(file.data() + offset, &header, sizeof header);
    std::copy(chunk.records.begin(), chunk.records.end(),
              file.begin() + static_cast<ptrdiff_t>(offset + sizeof header));
  };
  for (const Chunk& chunk : definitions_.chunks) add(chunk);
  for (const auto& [number, slot] : slots_) {
    for (const Chunk& chunk : slot.chunks) add(chunk);
  }
  counters_.file_bytes = file.size();
  if (counters_.ended != 0) {
    counters_.end_ticks = counters_.end_monotonic_ns = kStart + last_time_;
  }
  memcpy(file.data(), &header_, sizeof header_);
  // One page of counters, as logs had before there were more than eight kinds on a device.
  memcpy(file.data() + GPUPEAK_LOG_PAGE, &counters_, counters_bytes(header_));
  return file;
}

std::string LogBuilder::save(const std::string& path) {
  const std::vector<uint8_t> file = bytes();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
  keep_copy(path);
  return path;
}

TemporaryFile::TemporaryFile(const std::string& ending) {
  const char* folder = getenv("TMPDIR");
  path_ = std::string(folder != nullptr ? folder : "/tmp") + "/gpupeak-unit-XXXXXX" + ending;
  const int fd = mkstemps(path_.data(), static_cast<int>(ending.size()));
  if (fd < 0) throw std::runtime_error("cannot make a file in " + path_);
  close(fd);
}

TemporaryFile::~TemporaryFile() {
  unlink(path_.c_str());
}

void TemporaryFile::write(const std::vector<uint8_t>& bytes) const {
  std::ofstream out(path_, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

}  // namespace gpupeak::testing
