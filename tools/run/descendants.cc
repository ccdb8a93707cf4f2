#include "tools/run/descendants.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "collector/log/log_head.h"
#include "collector/text/error.h"
#include "gpupeak/smaps.h"
#include "tools/shared/child.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

using Unrecorded = collector::RunRecord::Unrecorded;

/// Looking may take a two-hundredth of one processor, and kCredit more at the start: the first look
/// at a process takes long, and in a short run nearly all processes are new.
constexpr int kShare = 200;
constexpr std::chrono::milliseconds kCredit{10};

/// A variable's value in the content of /proc/PID/environ.
std::optional<std::string> variable_of(const std::string& environment, const std::string& name) {
  std::istringstream entries(environment);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

/// Why a process has not loaded the library; none: it may be about to load it. `is_new`: its
/// program may have begun just now, so that its environment is not there yet.
std::optional<std::string> why_missing(pid_t process, const std::string& library, bool is_new) {
  const auto environment = kernel_text(of_process(process, "environ"));
  if (!environment) return "it runs as another user";
  if (environment->empty() && is_new) return std::nullopt;
  if (auto why = why_never_preloaded(of_process(process, "exe"))) return why;
  const auto preload = variable_of(*environment, "LD_PRELOAD");
  if (!preload || preload->empty()) return "its environment has no LD_PRELOAD";
  if (preload->find(library) == std::string::npos)
    return "its LD_PRELOAD was replaced by " + *preload;
  return std::nullopt;
}

/// Whether the process runs as another user than we do. Its log would not be trusted.
bool is_of_another_user(pid_t process) {
  std::istringstream users(status_of(process)["Uid"]);
  uid_t real = 0, effective = 0, saved = 0, of_files = 0;
  return users >> real >> effective >> saved >> of_files && of_files != geteuid();
}

/// Whether a process has given up its memory, which happens at its end while its pid still exists.
/// Its maps, if they were read before this call, may then be incomplete, and tell nothing.
bool is_ending(pid_t process) {
  const collector::Descriptor file(open(of_process(process, "maps").c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 0;
  return file ? read(file.get(), &byte, 1) <= 0 : errno != EACCES && errno != EPERM;
}

void add_children(pid_t process, uint64_t threads, std::vector<pid_t>& next) {
  const std::string tasks = of_process(process, "task");
  const std::vector<pid_t> all = threads <= 1 ? std::vector<pid_t>{process} : numbers_in(tasks);
  for (const pid_t thread : all) {
    std::ifstream children(fmt::format("{}/{}/children", tasks, thread));
    for (pid_t child = 0; children >> child;) next.push_back(child);
  }
}

}  // namespace

Descendants::Descendants(pid_t program, std::string library, MemoryKills& memory)
    : program_(program), library_(std::move(library)), memory_(memory) {
  if (const auto stat = stat_of(program)) first_start_ = stat->start_time;
  files_.note(program, "exe", link_of(program, "exe"));  // it may be gone before the first look
  const SignalsBlocked blocked;  // since the first thread is to pass signals on
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  } catch (const std::system_error&) {  // no thread can be made: nobody looks
  }
}

void Descendants::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Descendants::watch(const std::stop_token& stop) {
  Clock::duration wait = kFirstLook;
  const auto first = Clock::now();
  auto spent = std::chrono::nanoseconds{};
  for (;;) {
    {
      std::unique_lock guard(lock_);
      wake_.wait_for(guard, stop, wait, [] { return false; });
    }
    if (stop.stop_requested()) return;
    const auto began = processor_time();
    try {
      look();
      spent += processor_time() - began - resident_cost_;  // resident_ has a limit of its own
      find_orphans(std::chrono::milliseconds(50));
    } catch (const std::exception&) {  // out of memory: try again at the next look
    }
    const Clock::duration owed = kShare * (spent - kCredit) - (Clock::now() - first);
    wait = std::max<Clock::duration>(std::min<Clock::duration>(2 * wait, kLongestWait), owed);
  }
}

void Descendants::look() {
  std::vector<pid_t> next{program_};
  for (const auto& [process, seen] : seen_) {
    if (process != program_) next.push_back(process);
  }
  std::vector<pid_t> done;
  while (!next.empty()) {
    const pid_t process = next.back();
    next.pop_back();
    if (std::find(done.begin(), done.end(), process) != done.end()) continue;
    done.push_back(process);
    look_at(process, next);
  }
  resident_cost_ = resident_.look();
  ask_nvml();
}

void Descendants::look_at(pid_t process, std::vector<pid_t>& next) {
  const auto stat = stat_of(process);
  const auto known = seen_.find(process);
  if (!stat || stat->has_ended() ||
      (known != seen_.end() && known->second.start_time != stat->start_time)) {
    if (known != seen_.end()) forget(known);
    return;
  }
  memory_.note(process);
  Seen& seen = seen_[process];
  // A reading holds the program up. In a short one the looks of the library will do.
  const bool looks_itself = process == program_ && seen.library == Library::kLoaded &&
                            Clock::now() < began_ + std::chrono::milliseconds(500);
  resident_.note(process, stat->start_time, stat->rss_bytes, looks_itself);
  seen.start_time = stat->start_time;
  seen.state = stat->state;
  seen.rss_bytes = std::max(seen.rss_bytes, stat->rss_bytes);
  const std::string program = link_of(process, "exe");
  // is_other: the process is new, or runs another program, perhaps of the same file. (A child of
  // vfork shows its parent's program until its exec. One that is about to end shows none.)
  const bool has_moved = stat->arguments != 0 && seen.arguments != stat->arguments;
  const bool is_other = (!program.empty() && seen.program != program) || has_moved;
  if (seen.name != stat->name || is_other) {
    seen.name = stat->name;
    if (has_moved) seen.arguments = stat->arguments;
    if (is_other) static_cast<Checked&>(seen) = {};
    if (!program.empty()) seen.program = program;
    if (is_other) files_.note(process, "exe", program);
  }
  if (seen.library != Library::kLoaded && Clock::now() >= seen.next_check) check(process, seen);
  add_children(process, stat->threads, next);
}

/// Removes a process that has gone, and keeps what is worth telling of it.
void Descendants::forget(std::map<pid_t, Seen>::iterator gone) {
  const Seen& seen = gone->second;
  const bool is_worth_words = seen.rss_bytes >= kWorthWords || seen.used_gpu;
  constexpr size_t kMost = 65536;
  if (seen.library == Library::kMissing && is_worth_words)
    add_missing(gone->first, seen);
  else if (is_worth_words || ended_.size() < kMost)
    ended_.push_back({gone->first, seen.name, seen.rss_bytes, seen.library == Library::kLoaded});
  seen_.erase(gone);
}

void Descendants::add_missing(pid_t process, const Seen& seen) {
  missing_.push_back({static_cast<uint32_t>(process), seen.name, seen.why, seen.used_gpu, false,
                      seen.rss_bytes, collector::values_of(seen.devices), seen.of_another_run});
}

/// Checks whether the process has loaded the library. A process that has just begun may still be
/// about to load it.
void Descendants::check(pid_t process, Seen& seen) {
  constexpr std::chrono::seconds kLongest{1};
  constexpr int kSeveral = 4;
  seen.next_check = Clock::now() + seen.wait;
  seen.wait = std::min<Clock::duration>(2 * seen.wait, kLongest);
  ++seen.checks;
  const std::string maps = kernel_text(of_process(process, "maps")).value_or("");
  const bool has_library = maps.find("/" + library_) != std::string::npos;
  const bool has_driver = maps.find("/libcuda.so") != std::string::npos;
  const bool is_other_runs = has_library && is_of_another_run(process);
  if (has_library && !is_other_runs && !is_of_another_user(process)) {
    seen.library = Library::kLoaded;
    files_.note_mapped(process, maps);
    return;
  }
  seen.used_gpu |= has_driver;
  seen.may_use_gpu = has_driver || maps.empty();
  if (seen.library == Library::kMissing) return;
  std::optional<std::string> why;
  if (is_other_runs)
    why = "a run within this one records it, in a log of its own";
  else if (has_library)
    why = "it runs as another user, whose log is not believed";
  else
    why = why_missing(process, library_, seen.checks < kSeveral);
  if (is_ending(process)) return;
  if (!why && seen.checks < kSeveral) return;
  seen.library = Library::kMissing;
  seen.why = why.value_or("it does not load it");
  seen.of_another_run = is_other_runs;
}

/// Whether a `run` that the program has started has started the process.
bool Descendants::is_of_another_run(pid_t process) const {
  const auto environment = kernel_text(of_process(process, "environ"));
  if (!environment) return false;
  const auto run = variable_of(*environment, "GPUPEAK_RUN_PID");
  return run && *run != std::to_string(program_);
}

/// Processes that may have begun since the run, and perhaps threads. Numbers are given in turn, so
/// in a short run no older process has a larger one. To list all processes takes longer than to ask
/// for some numbers.
std::vector<pid_t> Descendants::newer_processes() const {
  constexpr int64_t kMostForks = 30'000;  // in a second, by all of the machine together
  constexpr pid_t kFew = 100;
  std::ifstream load("/proc/loadavg"), most("/proc/sys/kernel/pid_max");
  std::string word;
  for (int i = 0; i < 4; ++i) load >> word;
  pid_t last = 0;
  int64_t pid_max = 0;
  const bool are_known = load >> last && most >> pid_max && last >= program_;
  const auto ran = std::chrono::ceil<std::chrono::seconds>(Clock::now() - began_);
  if (!are_known || ran.count() * kMostForks >= pid_max) return numbers_in("/proc");
  std::vector<pid_t> newer;
  if (last - program_ <= kFew) {
    for (pid_t process = program_; process <= last; ++process) newer.push_back(process);
  } else {
    newer = numbers_in("/proc");
    std::erase_if(newer, [this](pid_t process) { return process < program_; });
  }
  return newer;
}

/// Finds daemons whose parent had gone before a look: their environment has the run's pid. This
/// goes over all processes that may be newer, so it is done less often.
void Descendants::find_orphans(std::chrono::milliseconds most) {
  constexpr std::chrono::seconds kApart{1};
  if (Clock::now() < next_orphans_ || first_start_ == 0) return;
  const auto before = processor_time();
  const std::string mark = fmt::format("GPUPEAK_RUN_PID={}", program_);
  for (const pid_t process : newer_processes()) {
    if (processor_time() - before > most) break;
    if (seen_.contains(process)) continue;
    const auto stat = stat_of(process);
    if (!stat || stat->start_time < first_start_ || stat->has_ended()) continue;
    const auto environment = kernel_text(of_process(process, "environ"));
    if (!environment || environment->find(mark) == std::string::npos ||
        status_of(process)["Tgid"] != std::to_string(process))
      continue;
    std::vector<pid_t> next;
    look_at(process, next);
  }
  const auto took = processor_time() - before;
  next_orphans_ = Clock::now() + std::max<Clock::duration>(kApart, kShare * took);
}

void Descendants::ask_nvml() {
  const bool wanted = std::ranges::any_of(seen_, [](const auto& entry) {
    return entry.second.library == Library::kMissing && entry.second.may_use_gpu;
  });
  if (!wanted) return;
  for (const NvmlHeld& held : nvml_.all()) {
    const auto known = seen_.find(held.process);
    if (known == seen_.end() || known->second.library != Library::kMissing || held.bytes == 0)
      continue;
    known->second.used_gpu = true;
    auto& device = known->second.devices[held.uuid];
    device = {held.uuid, held.name, held.index, std::max(device.bytes, held.bytes)};
  }
}

/// Waits for helpers that end when they see that the program has ended, such as multiprocessing's
/// resource tracker. It waits longer while they are not asleep, since they may not get a processor.
/// A process that sleeps is expected to stay.
void Descendants::wait_for_last() {
  constexpr std::chrono::milliseconds kApart{10}, kLeast{100}, kMost{1000};
  const auto began = Clock::now();
  for (;; std::this_thread::sleep_for(kApart)) {
    look();
    const auto waited = Clock::now() - began;
    const bool all_sleep = std::ranges::all_of(seen_, [](const auto& entry) {
      return entry.second.state == 'S' || entry.second.state == 'T';
    });
    if (seen_.empty() || waited >= kMost || (waited >= kLeast && all_sleep)) return;
  }
}

const std::map<pid_t, RunResident::Curve>& Descendants::curves() {
  stop();
  return resident_.curves();
}

void Descendants::finish(collector::RunRecord& record) {
  stop();
  try {
    next_orphans_ = {};  // look now for processes that the program has left behind
    find_orphans(std::chrono::milliseconds(500));
    wait_for_last();
  } catch (const std::exception&) {  // out of memory
  }
  for (const auto& [process, seen] : seen_) {
    record.left_running.push_back({static_cast<uint32_t>(process), seen.start_time, seen.name,
                                   seen.library == Library::kMissing ? seen.why : ""});
  }
  while (!seen_.empty()) forget(seen_.begin());
  record.unrecorded = std::move(missing_);
  resident_.add_to(record);
}

void Descendants::count_small(const std::set<pid_t>& logs, collector::RunRecord& record) const {
  for (const Ended& ended : ended_) {
    const auto is_it = [&](const Unrecorded& one) {
      return static_cast<pid_t>(one.pid) == ended.process;
    };
    if (logs.contains(ended.process) || std::ranges::any_of(record.unrecorded, is_it)) continue;
    ++record.small.count;
    if (ended.rss_bytes < record.small.rss_bytes) continue;
    record.small.rss_bytes = ended.rss_bytes;
    record.small.largest = ended.name;
  }
}

void Descendants::add_not_recorded(const char* why, collector::RunRecord& record) const {
  for (const collector::RunRecord::Resident& seen : record.resident) {
    const auto ended = std::ranges::find(ended_, static_cast<pid_t>(seen.pid), &Ended::process);
    if (ended == ended_.end() || !ended->had_library || bytes_of_its_own(seen) < kWorthWords)
      continue;
    record.unrecorded.push_back({seen.pid, ended->name, why, false, false, seen.rss_bytes, {}});
  }
}

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
  auto sums = collector::fields_of(of_process(process, "smaps_rollup"));
  if (!sums.contains("Pss")) return std::nullopt;
  const auto bytes = [&sums](const char* name) { return smaps::bytes_at(sums[name].c_str()); };
  return Share{bytes("Pss"), bytes("Pss_Anon") + bytes("Pss_Shmem")};
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
    smaps::find_other_shared(shared, resident_.log_bytes, resident_);
    if (!counters_) return resident_;
    const auto heap = static_cast<int64_t>(counters_->heap.live);  // of threads' steps: may be < 0
    resident_.heap_bytes = heap > 0 ? static_cast<uint64_t>(heap) : 0;
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
    smaps::add_pages(mapping_, of, pages_, resident_);
    // The library says itself what it has.
    if (of == ResidentKind::kAnonymous && !before_path_.ends_with("/libgpupeak.so"))
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

void RunResident::note(pid_t process, uint64_t start_time, uint64_t rss_bytes, bool looks_itself) {
  noted_[process] = {start_time, rss_bytes, looks_itself};
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
  const uint64_t sum =
      collector::sum_of(noted_, [](const auto& noted) { return noted.second.rss_bytes; });
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
    if ((noted.rss_bytes >= kLarge) == are_large && !noted.looks_itself) look_at(process, noted);
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
