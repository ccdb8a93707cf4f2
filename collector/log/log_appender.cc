#include "collector/log/log_appender.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <protozero/varint.hpp>
#include <set>

#include "collector/log/clock_map.h"
#include "collector/log/log_head.h"
#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

constexpr uint32_t kChunkBytes = GPUPEAK_LOG_PAGE;
constexpr size_t kHeadBytes = 2 * GPUPEAK_LOG_PAGE;
constexpr size_t kMaxNameBytes = 1024;

/// Reads the counter that the process takes its time stamps from. No other event's time depends on
/// this one to the tick, so it need not be read more exactly.
uint64_t counter() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  uint64_t now;
  asm volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(now)::"memory");
  return now;
#endif
}

void put_varint(std::vector<uint8_t>& to, uint64_t value) {
  protozero::write_varint(std::back_inserter(to), value);
}

std::vector<uint8_t> fields(std::initializer_list<uint64_t> values) {
  std::vector<uint8_t> result;
  for (const uint64_t value : values) put_varint(result, value);
  return result;
}
std::vector<uint8_t> fields(std::initializer_list<uint64_t> values, std::string_view text) {
  std::vector<uint8_t> result = fields(values);
  text = text.substr(0, kMaxNameBytes);
  put_varint(result, text.size());
  result.insert(result.end(), text.begin(), text.end());
  return result;
}

/// Locks the file. The process holds this lock for microseconds only, but whoever may read the log
/// can hold it for good. After 50 ms we go on without it: at worst this chunk is lost when the
/// process ends.
bool lock_in_time(int fd) {
  constexpr int kTries = 50;
  constexpr timespec kPause{0, 1'000'000};
  for (int i = 0; i < kTries; ++i) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    nanosleep(&kPause, nullptr);
  }
  return false;
}

bool is_log_of(const std::string& path, uint32_t pid) {
  const Descriptor file = open_regular(path, O_RDONLY | O_NOFOLLOW);
  gpupeak_file_header header{};
  return file && pread(file.get(), &header, sizeof header, 0) == sizeof header &&
         header.magic == GPUPEAK_LOG_MAGIC && header.pid == pid;
}

}  // namespace

std::string log_of_process(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream maps(folder + "/maps");
  if (!maps) {
    throw UsageError(access(folder.c_str(), F_OK) == 0
                         ? "process " + std::to_string(pid) +
                               " cannot be looked at: " + strerror(errno)
                         : "there is no process " + std::to_string(pid));
  }
  const uint32_t inside = pid_inside(folder);
  std::set<std::string> seen;
  for (std::string line; std::getline(maps, line);) {
    // begin-end perms offset device inode path
    const size_t at = line.find('/');
    if (at == std::string::npos || line.find(" rw-s ") == std::string::npos) continue;
    const std::string path = line.substr(at);
    if (!seen.insert(path).second) continue;
    for (const std::string& candidate : {path, folder + "/root" + path}) {
      if (is_log_of(candidate, inside)) return candidate;
    }
  }
  return "";
}

LogAppender::LogAppender(const std::string& path) : path_(path) {
  inside_ = open_regular(path, O_RDWR | O_NOFOLLOW);
  if (!inside_) fail("cannot be written");
  gpupeak_file_header header{};
  if (pread(inside_.get(), &header, sizeof header, 0) != sizeof header ||
      header.magic != GPUPEAK_LOG_MAGIC || header.version != GPUPEAK_LOG_VERSION ||
      header.counters_offset != GPUPEAK_LOG_PAGE || header.clock > GPUPEAK_CLOCK_TSC_16) {
    errno = 0;
    fail("is not a log that this gpupeak can write into");
  }
  guard_mappings();  // the log may be cut meanwhile
  void* const head =
      mmap(nullptr, kHeadBytes, PROT_READ | PROT_WRITE, MAP_SHARED, inside_.get(), 0);
  if (head == MAP_FAILED) fail("cannot be mapped");
  head_.reset(head);
  cookie_ = header.cookie;
  clock_ = header.clock;
}

void LogAppender::Unmap::operator()(void* head) const {
  munmap(head, kHeadBytes);
}

void LogAppender::fail(const std::string& what) const {
  throw LogError(path_ + " " + what + (errno != 0 ? std::string(": ") + strerror(errno) : ""), 0);
}

LogAppender::Now LogAppender::now() const {
  const uint64_t ns = clock_ns(CLOCK_MONOTONIC);
  switch (clock_) {
    case GPUPEAK_CLOCK_TSC:
      return {counter(), ns};
    case GPUPEAK_CLOCK_TSC_16:
      return {counter() / GPUPEAK_CYCLES_OF_TICK, ns};
    default:
      return {ns, ns};
  }
}

void LogAppender::new_chunk(const Now& now) {
  errno = 0;  // a write that is only cut short sets none
  // Moving the file's end in the counters page takes the chunk's place. The lock is against the
  // process, which cuts off what lies behind the end when it exits.
  const bool locked = lock_in_time(inside_.get());
  auto* counters =
      reinterpret_cast<gpupeak_counters_page*>(static_cast<char*>(head_.get()) + GPUPEAK_LOG_PAGE);
  chunk_ = std::atomic_ref<uint64_t>(counters->file_bytes).fetch_add(kChunkBytes);
  if (chunk_ % kChunkBytes != 0) fail("is damaged");
  if (slot_ == 0) slot_ = GPUPEAK_FOREIGN_SLOT | static_cast<uint32_t>(chunk_ / GPUPEAK_LOG_PAGE);
  std::array<char, kChunkBytes> page{};
  gpupeak_chunk_header header{};
  header.magic = GPUPEAK_CHUNK_MAGIC;
  header.bytes = kChunkBytes;
  header.check = cookie_ ^ chunk_;
  header.kind = GPUPEAK_CHUNK_EVENTS;
  header.slot = slot_;
  header.sequence = sequence_;
  header.start_ticks = now.ticks;
  header.start_monotonic_ns = now.monotonic_ns;
  memcpy(page.data(), &header, sizeof header);
  const ssize_t written =
      pwrite(inside_.get(), page.data(), page.size(), static_cast<off_t>(chunk_));
  if (locked) flock(inside_.get(), LOCK_UN);
  if (written != static_cast<ssize_t>(page.size())) fail("cannot grow");
  ++sequence_;
  used_ = sizeof header;
  time_ = now.ticks;
}

void LogAppender::append(uint8_t tag, const std::vector<uint8_t>& rest, const Now& now) {
  errno = 0;
  const size_t most = rest.size() + 32;
  if (chunk_ == 0 || used_ + most > kChunkBytes) new_chunk(now);
  std::vector<uint8_t> body;
  put_varint(body, now.ticks > time_ ? now.ticks - time_ : 0);
  body.insert(body.end(), rest.begin(), rest.end());
  std::vector<uint8_t> record{0};
  put_varint(record, body.size());
  record.insert(record.end(), body.begin(), body.end());
  const auto at = static_cast<off_t>(chunk_ + used_);
  // The tag is written last: a record is whole or not there.
  if (pwrite(inside_.get(), record.data(), record.size(), at) !=
          static_cast<ssize_t>(record.size()) ||
      pwrite(inside_.get(), &tag, 1, at) != 1) {
    fail("cannot be written");
  }
  used_ += static_cast<uint32_t>(record.size());
  time_ = std::max(time_, now.ticks);
}

void LogAppender::mark(std::string_view name) {
  append(GPUPEAK_REC_MARK, fields({GPUPEAK_PHASE_MARK, 0, 0, 0}, name), now());
}

void LogAppender::begin_phase(std::string_view name) {
  constexpr uint64_t kProcess = 1;
  if (phase_is_open_)
    append(GPUPEAK_REC_PHASE_POP, fields({kProcess, GPUPEAK_PHASE_MARK, 0}), now());
  append(GPUPEAK_REC_PHASE_PUSH, fields({kProcess, GPUPEAK_PHASE_MARK, 0, 0, 0}, name), now());
  phase_is_open_ = true;
}

void LogAppender::samples(const std::vector<Resident>& seen) {
  const auto* header = static_cast<const gpupeak_file_header*>(head_.get());
  const Now at_end = now();
  const auto ticks = static_cast<long double>(at_end.ticks - header->start_ticks);
  const auto ns = static_cast<long double>(at_end.monotonic_ns - header->start_monotonic_ns);
  for (const Resident& one : seen) {
    if (one.monotonic_ns < header->start_monotonic_ns || one.monotonic_ns > at_end.monotonic_ns)
      continue;
    const auto since = static_cast<long double>(one.monotonic_ns - header->start_monotonic_ns);
    append(GPUPEAK_REC_SAMPLE, fields({one.rss_bytes, 0, 0, 0}),
           {header->start_ticks + static_cast<uint64_t>(since * ticks / ns), one.monotonic_ns});
  }
}

}  // namespace gpupeak::collector
