#include "thread/resident.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

#include "base/call_filter.h"
#include "base/clock.h"
#include "base/copied_memory.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "gpupeak/smaps.h"
#include "log/log.h"
#include "log/log_file.h"
#include "stack/module_map.h"
#include "thread/emit.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {
namespace {

constinit std::atomic<uint64_t> g_highest{0};
constinit std::atomic<uint64_t> g_peak{0};  ///< by the kernel; published at the end alone
/// When the first look was; what others took since then; what the last one of each kind took.
constinit std::atomic<uint64_t> g_began_ns{0}, g_spent_ns{0}, g_list_ns{0}, g_quick_ns{0};
/// What a quick look cannot see, as at the last look at the list: written pages of mappings of
/// files, and the library's among them.
constinit std::atomic<uint64_t> g_in_files{0}, g_own_in_files{0};
/// There are pages that only the list tells apart; a quick look did not see all.
constinit std::atomic<bool> g_has_rare_pages{false}, g_needs_list{false};
/// There are pages of hugetlbfs, which /proc/self/statm does not count.
constinit std::atomic<bool> g_has_huge_pages{false};
constinit std::atomic<uint64_t> g_log_in_memory{0};  ///< of the log, which is no file's then
constinit std::atomic<bool> g_is_glibc{false};
/// Live bytes of blocks that malloc maps alone; see note_large_block().
constinit std::atomic<int64_t> g_mapped_alone{0};

/// Where private memory of no file is resident, huge pages too. If there are more places than fit,
/// two neighbours become one: those by which least is lost of what is known of their owners.
struct Places {
  struct Place {
    uint64_t begin, end, resident;
    uint64_t mapping;  ///< where it begins; 0: several
    /// So many bytes may be one owner's or another's.
    uint64_t unknown() const { return std::min(resident, end - begin - resident); }
  };

  void add(const Place& next) {
    if (count > 0 && next.begin < at[count - 1].end) return;  // the list changed meanwhile
    at[count] = next;
    if (count++ == 0) return;
    uint32_t least = count - 2;
    if (loss(least) > lost) {  // of pages that touch it is 0
      if (count <= GPUPEAK_MAX_PLACES) return;
      for (uint32_t i = 0; i + 2 < count; ++i)
        if (loss(i) < loss(least)) least = i;
      lost = std::max(lost, loss(least));
    }
    at[least] = joined(least);
    for (uint32_t i = least + 1; i + 1 < count; ++i) at[i] = at[i + 1];
    --count;
  }

  Place at[GPUPEAK_MAX_PLACES + 1];
  uint32_t count = 0;
  uint64_t lost = 0;  ///< the most that any two lost

  Place joined(uint32_t i) const {
    const Place &a = at[i], &b = at[i + 1];
    return {a.begin, b.end, a.resident + b.resident, a.mapping == b.mapping ? a.mapping : 0};
  }
  uint64_t loss(uint32_t i) const {
    const Place &a = at[i], &b = at[i + 1];
    const uint64_t unknown = joined(i).unknown();
    return std::min(a.resident, unknown) - a.unknown() + std::min(b.resident, unknown) -
           b.unknown() +
           (unknown > 0 && a.mapping != b.mapping ? std::min(a.resident, b.resident) : 0);
  }
};

struct Causes : ResidentParts {
  bool is_quick = false;  ///< by the list of mappings alone, and by what of each is resident
  uint64_t log = 0;
  uint64_t own = 0;          ///< of this library
  uint64_t static_data = 0;  ///< of anonymous_bytes: variables of modules that begin as zeros
  uint64_t in_files = 0, own_in_files = 0;  ///< see g_in_files
  Places places;
};

/// Variables that begin as zeros (.bss) are no part of their module's file. The kernel makes one
/// mapping of them and of what the program has mapped right behind.
uint64_t static_data_of(const Mapping& mapping, uint64_t bytes) {
  const uint64_t end = page_end(module_end_at(mapping.begin));
  return end <= mapping.begin ? 0 : std::min(bytes, end - mapping.begin);
}

/// What is resident of a private mapping of no file, or of the driver's. The list says so, too, but
/// far more slowly. Reservations are taken to have nothing. `places`: nullptr if they do not count.
__attribute__((noinline)) uint64_t touched(const Mapping& mapping, Places* places) {
  unsigned char pages[1024];
  const uint64_t page = arch::page_bytes();
  if (mapping.end - mapping.begin > uint64_t{64} << (mapping.is_readable ? 30 : 20)) return 0;
  uint64_t found = 0;
  for (uint64_t at = mapping.begin, bytes = 0; at < mapping.end; at += bytes) {
    bytes = std::min(mapping.end - at, sizeof pages * page);
    if (sys::failed(sys::mincore(at, bytes, pages))) break;
    const unsigned char* const end = pages + bytes / page;
    const auto find = [end](const unsigned char* from, unsigned wanted) {
      const uint64_t others = wanted != 0 ? 0 : 0x0101010101010101;
      for (uint64_t eight; end - from >= 8; from += 8) {  // reservations have millions of pages
        memcpy(&eight, from, sizeof eight);
        if (eight != others) break;
      }
      while (from != end && (*from & 1u) != wanted) ++from;
      return from;
    };
    for (const unsigned char *first = find(pages, 1), *last; first != end; first = find(last, 1)) {
      last = find(first, 0);
      const uint64_t begin = at + static_cast<uint64_t>(first - pages) * page;
      const uint64_t resident = static_cast<uint64_t>(last - first) * page;
      found += resident;
      if (places != nullptr) places->add({begin, begin + resident, resident, mapping.begin});
    }
  }
  return found;
}

void add(Causes& causes, const Mapping& mapping, const Mapping& before, MappingPages pages) {
  const ResidentKind kind =
      pages.is_growing_stack ? ResidentKind::kStacks : smaps::kind_of(mapping, before, copy_word);
  const bool is_of_file = mapping.is_shared || kind < ResidentKind::kStacks;
  if (causes.is_quick && !is_of_file)
    pages.rss = pages.anonymous = touched(mapping, &causes.places);
  if (causes.is_quick && kind == ResidentKind::kDriver) pages.rss = touched(mapping, nullptr);
  if (pages.bytes() == 0) return;
  if (!causes.is_quick && (!is_of_file || (pages.huge > 0 && !mapping.is_shared)))
    causes.places.add({mapping.begin, mapping.end, pages.bytes(), mapping.begin});
  if (pages.huge > 0) see_rare_pages(true);
  const uint64_t own = std::min(pages.anonymous, own_within(mapping.begin, mapping.end));
  if (is_of_file) {
    causes.in_files += pages.anonymous;
    causes.own_in_files += own;
  }
  causes.own += own;
  pages.anonymous -= own;
  pages.rss -= own;
  if (mapping.name == log_path()) {
    causes.log += pages.rss;
    return;
  }
  smaps::add_pages(mapping, kind, pages, causes);
  if (kind == ResidentKind::kAnonymous) causes.static_data += static_data_of(mapping, pages.rss);
}

/// The kernel counts what is resident in all. What no mapping without a file has are written pages
/// of files, which hardly grow, less pages of zeros that were only read, mostly by the library.
/// False if it is far more or less.
bool end_quick_look(Causes& causes, const ResidentStatus& status) {
  const bool knows_driver = status.files >= causes.driver_bytes;  // they count as files' pages
  causes.files_bytes = status.files - std::min(status.files, causes.driver_bytes);
  causes.shared_bytes = status.shared;
  uint64_t& with_log = g_log_in_memory > 0 ? causes.shared_bytes : causes.files_bytes;
  causes.log = std::min<uint64_t>(mapped_log_bytes(), with_log);
  with_log -= causes.log;
  causes.own += g_own_in_files;
  causes.written_bytes = g_in_files - g_own_in_files;
  const uint64_t all = status.resident - status.files - status.shared;
  const uint64_t seen = causes.own + causes.written_bytes + causes.stacks_bytes +
                        causes.malloc_bytes + causes.anonymous_bytes;
  const uint64_t more = all - std::min(all, seen), zeros = seen - std::min(all, seen);
  causes.written_bytes += more;
  causes.own -= std::min(causes.own, zeros);
  return knows_driver && more + zeros <= (512 << 10) + status.resident / 128;
}

__attribute__((noinline)) bool read_causes(Causes& causes) {
  Mapping mapping, before;
  MappingPages pages;
  char name[64] = {};  // of `mapping`: the line is gone when its figures come
  char buffer[4096];
  const auto take = [&](const char* line) {
    Mapping next;
    if (!smaps::parse_mapping(line, next)) return smaps::add_line(line, pages);
    add(causes, mapping, before, pages);
    pages = {};
    before = mapping;
    before.name = before.name.empty() ? std::string_view() : std::string_view("other");
    mapping = next;
    const std::string_view kept = head(next.name, sizeof name - 1);
    memcpy(name, kept.data(), kept.size());
    mapping.name = next.name == log_path() ? log_path() : std::string_view(name, kept.size());
  };
  const char* const list = causes.is_quick ? "/proc/self/maps" : "/proc/self/smaps";
  const bool was_read = for_each_line(list, buffer, sizeof buffer, [&](const char* line) {
    take(line);
    return false;
  });
  add(causes, mapping, before, pages);
  const ResidentStatus status = resident_status();
  raise_to(g_peak, status.peak);  // by our own stack
  if (causes.is_quick) return was_read && end_quick_look(causes, status);
  const bool is_in_memory = status.shared >= causes.shared_bytes + causes.log;  // a tmpfs
  g_log_in_memory.store(is_in_memory ? causes.log : 0, std::memory_order_relaxed);
  smaps::find_other_shared(status.shared, causes.log, causes);
  g_in_files = causes.in_files;
  g_own_in_files = causes.own_in_files;
  g_needs_list = false;
  return was_read;
}

/// What malloc keeps of freed memory, with its word before each block: what is resident where it
/// puts blocks, less those in use there and what others have taken there (brk). malloc itself is
/// not asked: mallinfo2() waits for the lock of each arena, which a thread may hold that somebody
/// has stopped.
uint64_t kept_by_malloc(uint64_t resident_bytes, int64_t heap_bytes) {
  const auto others_brk = static_cast<int64_t>(
      std::atomic_ref<uint64_t>(counters().others_brk_bytes).load(std::memory_order_relaxed));
  const int64_t in_use = inherited_heap_bytes() + heap_bytes + others_brk -
                         g_mapped_alone.load(std::memory_order_relaxed);
  const auto resident = static_cast<int64_t>(resident_bytes);
  return resident > in_use && in_use >= 0 ? static_cast<uint64_t>(resident - in_use) : 0;
}

__attribute__((noinline)) void log_causes(const Causes& causes) {
  const auto heap = static_cast<int64_t>(
      std::atomic_ref<uint64_t>(counters().heap.live).load(std::memory_order_relaxed));
  const uint64_t kept_plus_1 = g_is_glibc ? kept_by_malloc(causes.malloc_bytes, heap) + 1 : 0;
  Record record(GPUPEAK_REC_RESIDENT,
                causes.files_bytes + causes.written_bytes + causes.shared_bytes +
                    causes.driver_bytes + causes.stacks_bytes + causes.malloc_bytes +
                    causes.anonymous_bytes + causes.log + causes.own,
                causes.files_bytes, causes.shared_bytes, causes.driver_bytes, causes.stacks_bytes,
                causes.malloc_bytes + causes.anonymous_bytes, causes.log, causes.own, kept_plus_1,
                heap > 0 ? static_cast<uint64_t>(heap) : 0, causes.static_data,
                causes.written_bytes, causes.places.count + 1);
  uint64_t before = 0;
  for (uint32_t i = 0; i < causes.places.count; ++i) {
    const auto& [begin, end, resident, mapping] = causes.places.at[i];
    record.u(begin - before).u(end - begin).u(end - begin - resident);
    before = end;
  }
  emit(record);
}

/// Others may have the processor meanwhile.
uint64_t cost_clock() {
  return has_given_up_lookups() ? monotonic_ns() : thread_cpu_ns();
}

/// A process that has less is not looked at before it ends or gives memory back.
constexpr uint64_t kFirst = 16 << 20;

/// Logs a RESIDENT record if enough more is resident than at the last one. Of files' pages, which
/// come and go by themselves, four count as one. Looks take at most a 256th of the time, a fourth
/// of that while no memory goes. Before memory goes a quick one may take up to 2 ms more: all of
/// them where twice as much is resident as at the last look. The first one and one at the end cost
/// what they cost.
void note_resident_memory(const ResidentStatus& status, Moment moment) {
  constexpr uint64_t kWorth = 4 << 20, kPart = 256, kQuicker = 8, kBesideNs = 2'000'000;
  const uint64_t bytes =
      status.resident + status.huge_pages - (status.files + status.shared) / 4 * 3;
  uint64_t highest = g_highest.load(std::memory_order_relaxed);
  const bool is_first = highest == 0;
  const bool is_any = moment == Moment::kAny, is_end = moment == Moment::kAtEnd;
  const uint64_t worth = is_any ? highest / 16 + kWorth : highest / 256;
  const uint64_t least = is_any ? kFirst : kWorth;
  if (is_first ? !is_end && status.resident < least : bytes < highest + worth) return;
  const uint64_t now = monotonic_ns();
  const bool is_quick = !is_first && !g_has_rare_pages && !g_needs_list && !has_given_up_lookups();
  std::atomic<uint64_t>& cost = is_quick ? g_quick_ns : g_list_ns;
  const uint64_t more = is_quick && !is_any ? bytes - highest : 0;
  const uint64_t granted = (now - g_began_ns) / kPart / (is_any ? 4 : 1) +
                           kBesideNs * std::min(more, highest) / std::max<uint64_t>(highest, 1);
  if (!is_first && !is_end && granted < g_spent_ns + cost) return;
  if (!g_highest.compare_exchange_strong(highest, bytes, std::memory_order_relaxed)) return;
  flush_own_slot();
  Causes causes;
  causes.is_quick = is_quick;
  const uint64_t began = cost_clock();
  const bool was_read = read_causes(causes);
  cost = cost_clock() - began;
  (is_first ? g_quick_ns : g_spent_ns) += cost / (is_first ? kQuicker : 1);  // a guess, at first
  if (is_first) g_began_ns = now;
  if (!was_read && is_quick) {
    g_highest = highest;
    g_needs_list = true;
    note_resident_memory(status, moment);
  }
  if (!was_read) return;
  g_own_bytes.store(causes.own, std::memory_order_relaxed);
  log_causes(causes);
}

/// This process's proportional share of what is resident: pages that others have, too, count in
/// part. 0: not known. As slow.
__attribute__((noinline)) uint64_t proportional_bytes() {
  char text[4096];
  text[read_file("/proc/self/smaps_rollup", text, sizeof text - 1)] = 0;
  return kib_behind("\nPss:", text);
}

constinit std::atomic<uint64_t> g_last_sample_ns{0};
constinit std::atomic<uint64_t> g_sample_cost_ns{0};  ///< what a sample takes, of late
constinit bool g_shares_pages = false;

/// In a fraction of the time; files' pages count as shared.
ResidentStatus resident_now() {
  char text[128];
  text[read_file("/proc/self/statm", text, sizeof text - 1)] = 0;
  const char* at = text;
  next_number(at);  // total size
  const uint64_t resident = next_number(at) * arch::page_bytes();
  return {0, resident, 0, next_number(at) * arch::page_bytes(), 0, false};
}

}  // namespace

void note_malloc_of_glibc() {
  g_is_glibc.store(true, std::memory_order_relaxed);
}

void note_large_block(int64_t usable_bytes) {
  // glibc's malloc maps blocks of this size and more alone, if it can. Such a block has two words
  // before it and fills its pages, so that its size is a multiple of 16. A block of an arena has
  // one word before it: its size is 8 more than such a multiple.
  constexpr int64_t kLeast = 128 << 10;
  if ((usable_bytes >= kLeast || usable_bytes <= -kLeast) && usable_bytes % 16 == 0)
    g_mapped_alone.fetch_add(usable_bytes, std::memory_order_relaxed);
}

void forget_resident_memory() {
  g_highest = g_peak = g_spent_ns = 0;
}

void see_rare_pages(bool are_huge) {
  g_has_rare_pages = true;
  if (are_huge) g_has_huge_pages = true;
}

void share_pages() {
  g_shares_pages = true;
}

void sample_at_border(size_t going) {
  // A phase may be an inference of a millisecond. At most a 256th of its time goes to samples.
  const uint64_t shortest = std::max<uint64_t>(1'000'000, g_sample_cost_ns * 256);
  if (monotonic_ns() - g_last_sample_ns.load(std::memory_order_relaxed) >= shortest)
    sample(Moment::kBeforeLess, going);
}

void sample_before_less(size_t bytes) {
  static constinit std::atomic<size_t> gone{0};  // in smaller pieces
  if (bytes < kWorthASample && (gone += bytes) < 8 * kWorthASample) return;
  gone = 0;
  sample_at_border(bytes);
}

void sample(Moment moment, size_t going) {
  if (is_short_of_stack()) return;  // what takes much of it is not inlined here
  const uint64_t began = cost_clock();
  const bool is_end = moment == Moment::kAtEnd;
  g_last_sample_ns.store(monotonic_ns(), std::memory_order_relaxed);
  const ResidentStatus status = is_end || g_has_huge_pages ? resident_status() : resident_now();
  if (status.resident == 0) return;
  // What the driver needs for a while, as when it makes a context, is not worth a look, and so is
  // the border of a phase while little is resident.
  const bool is_border = going == SIZE_MAX;
  if (!is_end &&
      (is_border ? status.resident < kFirst : is_in_driver() && going < status.resident / 32))
    moment = Moment::kAny;
  if (is_end) {
    // The kernel's figure falls again (by 168 KiB, Linux 6.18), because each processor counts pages
    // of its own, and what it remembers when memory goes is read without them.
    raise_to(g_peak, status.peak);
    note_resident_memory(status, moment);  // g_own_bytes is for what follows
    counters().rss_peak_bytes = g_peak.load(std::memory_order_relaxed);
  }
  const uintptr_t top = sys::brk(0);
  const uint64_t share = g_shares_pages ? proportional_bytes() : 0;
  std::atomic_ref<uint64_t>(counters().self_bytes)
      .store(g_own_bytes + mapped_log_bytes(), std::memory_order_relaxed);
  const uint64_t all = status.resident + status.huge_pages;
  const uint64_t beside = status.files + g_own_bytes + g_log_in_memory;
  emit(Record{GPUPEAK_REC_SAMPLE, status.resident, status.files + status.shared,
              top > g_process->initial_brk ? top - g_process->initial_brk : 0,
              share != 0 ? share + 1 : 0,
              is_end && status.knows_its_pages ? all - std::min(all, beside) + 1 : 0});
  g_sample_cost_ns = (3 * g_sample_cost_ns + (cost_clock() - began)) / 4;
  if (!is_end) note_resident_memory(status, moment);
}

}  // namespace gpupeak::preload
