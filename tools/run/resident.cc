#include "tools/run/resident.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "gpupeak/log_format.h"
#include "gpupeak/memory_kinds.h"
#include "gpupeak/smaps.h"
#include "tools/shared/processor_time.h"
#include "tools/shared/program_headers.h"

namespace gpupeak::tools {
namespace {

using Resident = collector::RunRecord::Resident;

constexpr uint64_t kWorthALook = 16 << 20, kLarge = 256 << 20;
constexpr std::chrono::milliseconds kStandsStill{250};  ///< then what came last is read, too

/// Reading a list takes as long as it is: not for every page more.
bool is_more(uint64_t bytes, uint64_t before) {
  return bytes >= before + before / 16 + (4 << 20);
}

/// "Rss:     1234 kB"
uint64_t bytes_in(const std::string& line) {
  const size_t digits = line.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : std::stoull(line.substr(digits)) << 10;
}

/// The counters of this process, if that is its log.
std::optional<gpupeak_counters_page> counters_in(const std::string& file, pid_t process) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  gpupeak_file_header header{};
  gpupeak_counters_page page{};
  const bool is_log =
      pread(fd, &header, sizeof header, 0) == sizeof header && header.magic == GPUPEAK_LOG_MAGIC &&
      header.version == GPUPEAK_LOG_VERSION && header.pid == static_cast<uint32_t>(process) &&
      pread(fd, &page, counters_bytes(header), static_cast<off_t>(header.counters_offset)) ==
          static_cast<ssize_t>(counters_bytes(header));
  close(fd);
  return is_log ? std::optional(page) : std::nullopt;
}

/// One process's list, line by line.
class Reading {
 public:
  Reading(pid_t process, std::map<std::string, uint64_t>& static_data)
      : process_(process), static_data_(static_data) {
    resident_.pid = static_cast<uint32_t>(process);
  }

  void add(const std::string& line) {
    Mapping next;
    if (smaps::parse_mapping(line.c_str(), next)) {
      before_ = mapping_;
      before_path_ = name_;
      before_.name = before_.name.empty() ? "" : "other";
      name_ = next.name;
      mapping_ = next;
      mapping_.name = name_;
      // A log is a file that is mapped to be written; a deleted one cannot be read.
      is_log_ = next.is_writable && name_.starts_with('/') && is_log();
      if (is_log_) log_mapped_ += next.end - next.begin;
    } else if (line.starts_with("Rss:")) {
      const uint64_t bytes = bytes_in(line);
      kind_ = bytes == 0 ? ResidentKind::kFiles : kind();
      resident_.rss_bytes += bytes;
      part() += bytes;
      if (kind_ == ResidentKind::kAnonymous)
        resident_.static_data_bytes += std::min(bytes, static_data_before());
    } else if (line.starts_with("Shared_") &&
               (kind_ == ResidentKind::kMalloc || kind_ == ResidentKind::kAnonymous)) {
      resident_.shared_anonymous_bytes += bytes_in(line);
    }
  }

  Resident end() {
    if (!counters_) return resident_;
    resident_.heap_bytes =
        counters_->heap.live > 0 ? static_cast<uint64_t>(counters_->heap.live) : 0;
    resident_.own_bytes = counters_->self_bytes - std::min(counters_->self_bytes, log_mapped_);
    return resident_;
  }

 private:
  ResidentKind kind() const {
    return smaps::kind_of(mapping_, before_, [this](uint64_t address, uint64_t& word) {
      return read_word(address, word);
    });
  }
  bool read_word(uint64_t address, uint64_t& word) const {
    const iovec to{&word, sizeof word};
    const iovec from{reinterpret_cast<void*>(address), sizeof word};
    return process_vm_readv(process_, &to, 1, &from, 1, 0) == sizeof word;
  }

  bool is_log() {
    if (name_ == log_) return true;
    if (counters_ || name_ == looked_at_) return false;
    looked_at_ = name_;
    counters_ = counters_in(name_, process_);
    if (counters_) log_ = name_;
    return counters_.has_value();
  }

  /// Variables that begin as zeros lie behind those that their module's file has.
  uint64_t static_data_before() {
    if (before_.end != mapping_.begin || !before_.is_writable || !before_path_.starts_with('/'))
      return 0;
    const auto [known, is_new] = static_data_.emplace(before_path_, 0);
    if (is_new) {
      const std::string file = fmt::format("/proc/{}/root{}", process_, before_path_);
      known->second = static_data_bytes(program_headers(file));
    }
    return known->second;
  }

  uint64_t& part() {
    if (is_log_) return resident_.log_bytes;
    switch (kind_) {
      case ResidentKind::kFiles:
        return resident_.files_bytes;
      case ResidentKind::kShared:
        return resident_.shared_bytes;
      case ResidentKind::kDriver:
        return resident_.driver_bytes;
      case ResidentKind::kStacks:
        return resident_.stacks_bytes;
      case ResidentKind::kMalloc:
        return resident_.malloc_bytes;
      case ResidentKind::kAnonymous:
        break;
    }
    return resident_.anonymous_bytes;
  }

  const pid_t process_;
  std::map<std::string, uint64_t>& static_data_;
  Resident resident_;
  Mapping mapping_, before_;
  std::string name_, before_path_, log_, looked_at_;
  ResidentKind kind_ = ResidentKind::kFiles;
  bool is_log_ = false;
  uint64_t log_mapped_ = 0;
  std::optional<gpupeak_counters_page> counters_;
};

/// Its share of what is resident, where pages of several processes count in part.
std::optional<uint64_t> proportional_bytes(pid_t process) {
  std::ifstream sums(fmt::format("/proc/{}/smaps_rollup", process));
  for (std::string line; std::getline(sums, line);) {
    if (line.starts_with("Pss:")) return bytes_in(line);
  }
  return std::nullopt;
}

}  // namespace

uint64_t bytes_of_its_own(const Resident& seen) {
  const uint64_t all =
      seen.malloc_bytes + seen.anonymous_bytes + seen.stacks_bytes + seen.shared_bytes;
  return all - std::min(all, seen.shared_anonymous_bytes);
}

void RunResident::note(pid_t process, uint64_t start_time, uint64_t rss_bytes) {
  noted_[process] = {start_time, rss_bytes};
}

std::chrono::nanoseconds RunResident::look() {
  leave_out_borrowed();
  uint64_t sum = 0;
  for (const auto& [process, noted] : noted_) sum += noted.rss_bytes;
  if (std::exchange(sum_, sum) != sum) sum_since_ = std::chrono::steady_clock::now();
  const auto took = look_at_those(small_, false) + look_at_those(large_, true);
  noted_.clear();
  return took;
}

std::chrono::nanoseconds RunResident::look_at_those(Budget& budget, bool are_large) {
  constexpr int kShareAtFirst = 16, kShareOfSmall = 400, kShareOfLarge = 64;
  constexpr std::chrono::milliseconds kFirst{20};
  const auto now = std::chrono::steady_clock::now();
  if (now < budget.next) return {};
  const auto began = processor_time();
  for (const auto& [process, noted] : noted_) {
    if ((noted.rss_bytes >= kLarge) == are_large) look_at(process, noted);
  }
  // Pages that they share count in each: what is the last one's own is little of the sum.
  const bool stands_still = now - sum_since_ >= kStandsStill && sum_ > highest_sum_;
  if (noted_.size() > 1 && (sum_ >= kLarge) == are_large &&
      (is_more(sum_, highest_sum_) || stands_still))
    look_at_all();
  const auto took = processor_time() - began;
  budget.spent += took;
  const int of_small = budget.spent < kFirst ? kShareAtFirst : kShareOfSmall;
  budget.next = now + (are_large ? kShareOfLarge : of_small) * took;
  return took;
}

/// Between vfork and exec a process has its parent's memory, not a part of it.
void RunResident::leave_out_borrowed() {
  std::map<uint64_t, pid_t> by_size;
  for (auto noted = noted_.begin(); noted != noted_.end();) {
    const auto [other, is_first] = by_size.emplace(noted->second.rss_bytes, noted->first);
    // Where the kernel does not tell, two of one size to the page are taken to be one.
    const bool is_borrowed = !is_first && noted->second.rss_bytes >= kWorthALook &&
                             syscall(SYS_kcmp, other->second, noted->first, KCMP_VM, 0, 0) <= 0;
    noted = is_borrowed ? noted_.erase(noted) : std::next(noted);
  }
}

void RunResident::look_at(pid_t process, const Noted& noted) {
  Known& known = known_[process];
  if (known.start_time != noted.start_time) {
    if (known.highest) done_.push_back(*known.highest);
    known = Known();
    known.start_time = noted.start_time;
  }
  const auto now = std::chrono::steady_clock::now();
  if (std::exchange(known.rss_bytes, noted.rss_bytes) != noted.rss_bytes) known.since = now;
  const uint64_t before = known.highest ? known.highest->rss_bytes : kWorthALook;
  const bool stands_still = now - known.since >= kStandsStill && noted.rss_bytes > before &&
                            noted.rss_bytes != known.read_bytes;
  if (!is_more(noted.rss_bytes, before) && !stands_still) return;
  known.read_bytes = noted.rss_bytes;
  std::ifstream list(fmt::format("/proc/{}/smaps", process));
  Reading reading(process, static_data_);
  for (std::string line; std::getline(list, line);) reading.add(line);
  const Resident seen = reading.end();
  if (seen.rss_bytes > (known.highest ? known.highest->rss_bytes : 0)) known.highest = seen;
}

void RunResident::look_at_all() {
  highest_sum_ = sum_;
  collector::RunRecord::Together together;
  together.rss_bytes = sum_;
  for (const auto& [process, noted] : noted_) {
    const auto part = proportional_bytes(process);
    if (!part) continue;  // another user's, or it has just gone
    together.pss_bytes += *part;
    ++together.processes;
  }
  if (!together_ || together.pss_bytes > together_->pss_bytes) together_ = together;
}

void RunResident::add_to(collector::RunRecord& record) const {
  record.resident = done_;
  for (const auto& [process, known] : known_) {
    if (known.highest) record.resident.push_back(*known.highest);
  }
  record.together = together_;
}

}  // namespace gpupeak::tools
