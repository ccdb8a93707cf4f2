#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "collector/log/log_head.h"
#include "collector/text/error.h"
#include "gpupeak/log_format.h"
#include "gpupeak/smaps.h"
#include "tools/run/descendants.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

using Resident = collector::RunRecord::Resident;

constexpr uint64_t kWorthALook = 16 << 20, kLarge = 256 << 20;
constexpr std::chrono::milliseconds kStandsStill{250};  ///< then what came last is read, too

/// Reading a list takes as long as it is: not for every page more.
bool is_more(uint64_t bytes, uint64_t before) {
  return bytes >= before + before / 16 + (4 << 20);
}

/// The counters of this process, if that is its log.
std::optional<gpupeak_counters_page> counters_in(const std::string& file, pid_t process) {
  try {
    const collector::LogHead head = collector::read_head(file);
    return head.header.pid == static_cast<uint32_t>(process) ? std::optional(head.counters)
                                                             : std::nullopt;
  } catch (const collector::LogError&) {
    return std::nullopt;
  }
}

/// A process's share of what is resident: pages of several processes count in part.
struct Share {
  uint64_t all_bytes = 0, own_bytes = 0;  ///< own: not files'
};
std::optional<Share> share_of(pid_t process) {
  std::ifstream sums(of_process(process, "smaps_rollup"));
  std::optional<Share> share;
  for (std::string line; std::getline(sums, line);) {
    const uint64_t bytes = smaps::bytes_at(line.c_str());
    if (line.starts_with("Pss:")) share = Share{bytes, 0};
    if (share && (line.starts_with("Pss_Anon:") || line.starts_with("Pss_Shmem:")))
      share->own_bytes += bytes;
  }
  return share;
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
    if (!smaps::parse_mapping(line.c_str(), next)) return smaps::add_line(line.c_str(), pages_);
    add_mapping();
    pages_ = {};
    before_ = mapping_;
    before_path_ = name_;
    before_.name = before_.name.empty() ? "" : "other";
    name_ = next.name;
    mapping_ = next;
    mapping_.name = name_;
    // A log is a file that is mapped to be written; a deleted one cannot be read.
    is_log_ = next.is_writable && name_.starts_with('/') && is_log();
    if (is_log_) log_mapped_ += next.end - next.begin;
  }

  Resident end() {
    add_mapping();
    const uint64_t shared = smaps::bytes_at(status_of(process_)["RssShmem"].c_str());
    smaps::find_other_shared(shared, resident_.log_bytes, parts_);
    resident_.files_bytes = parts_.files;
    resident_.written_bytes = parts_.written;
    resident_.shared_bytes = parts_.shared;
    resident_.driver_bytes = parts_.driver;
    resident_.stacks_bytes = parts_.stacks;
    resident_.malloc_bytes = parts_.malloc;
    resident_.anonymous_bytes = parts_.anonymous;
    if (!counters_) return resident_;
    resident_.heap_bytes =
        counters_->heap.live > 0 ? static_cast<uint64_t>(counters_->heap.live) : 0;
    resident_.own_bytes = counters_->self_bytes - std::min(counters_->self_bytes, log_mapped_);
    resident_.others_brk_bytes = counters_->others_brk_bytes;
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
      const std::string file = of_process(process_, "root" + before_path_);
      known->second = static_data_bytes(program_headers(file));
    }
    return known->second;
  }

  void add_mapping() {
    const uint64_t bytes = pages_.bytes();
    if (bytes == 0) return;
    resident_.rss_bytes += bytes;
    if (is_log_) {
      resident_.log_bytes += bytes;
      return;
    }
    const ResidentKind of = pages_.is_growing_stack ? ResidentKind::kStacks : kind();
    smaps::add_pages(mapping_, of, pages_, parts_);
    if (of == ResidentKind::kAnonymous)
      resident_.static_data_bytes += std::min(bytes, static_data_before());
    if (of == ResidentKind::kAnonymous || of == ResidentKind::kMalloc)
      resident_.shared_anonymous_bytes += pages_.others;
  }

  const pid_t process_;
  std::map<std::string, uint64_t>& static_data_;
  Resident resident_;
  Mapping mapping_, before_;
  std::string name_, before_path_, log_, looked_at_;
  MappingPages pages_;
  ResidentParts parts_;
  bool is_log_ = false;
  uint64_t log_mapped_ = 0;
  std::optional<gpupeak_counters_page> counters_;
};

}  // namespace

uint64_t bytes_of_its_own(const Resident& seen) {
  const uint64_t all =
      seen.malloc_bytes + seen.anonymous_bytes + seen.stacks_bytes + seen.shared_bytes;
  return all - std::min(all, seen.shared_anonymous_bytes);
}

void RunResident::note(pid_t process, uint64_t start_time, uint64_t rss_bytes) {
  noted_[process] = {start_time, rss_bytes};
  add_to_curve(process, noted_[process]);
}

/// Of a long run every second point is left out, again and again: kMost stay.
void RunResident::add_to_curve(pid_t process, const Noted& noted) {
  constexpr size_t kMost = 512;
  if (noted.rss_bytes == 0) return;  // it is ending
  const auto now = static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  Curve& curve = curves_[process];
  if (curve.start_time != noted.start_time) curve = {noted.start_time, {}, 0};
  std::vector<collector::LogAppender::Resident>& points = curve.points;
  if (!points.empty() && now - points.back().monotonic_ns < curve.apart_ns) return;
  points.push_back({now, noted.rss_bytes});
  if (points.size() < kMost) return;
  for (size_t i = 0; 2 * i < points.size(); ++i) points[i] = points[2 * i];
  points.resize(points.size() / 2);
  curve.apart_ns = (points.back().monotonic_ns - points.front().monotonic_ns) / points.size();
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
    known = {.start_time = noted.start_time, .highest = {}};
  }
  const auto now = std::chrono::steady_clock::now();
  if (std::exchange(known.rss_bytes, noted.rss_bytes) != noted.rss_bytes) known.since = now;
  const uint64_t before = known.highest ? known.highest->rss_bytes : kWorthALook;
  const bool stands_still = now - known.since >= kStandsStill && noted.rss_bytes > before &&
                            noted.rss_bytes != known.read_bytes;
  if (!is_more(noted.rss_bytes, before) && !stands_still) return;
  known.read_bytes = noted.rss_bytes;
  std::ifstream list(of_process(process, "smaps"));
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
    const auto part = share_of(process);
    if (!part) continue;  // another user's, or it has just gone
    const auto known = known_.find(process);
    const uint64_t gpupeaks =
        known != known_.end() && known->second.highest ? known->second.highest->own_bytes : 0;
    together.pss_bytes += part->all_bytes;
    together.own_bytes += part->own_bytes - std::min(part->own_bytes, gpupeaks);
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
