#include "collector/files/cut_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

namespace gpupeak::collector {
namespace {

struct Mapping {
  std::atomic<uintptr_t> begin{0}, end{0};  ///< end 0: the entry is free
  std::atomic<bool> cut{false};
};

constexpr size_t kMappings = 256;
std::array<Mapping, kMappings> g_mappings;
std::atomic<uint64_t> g_cuts{0};
std::mutex g_taking;
uintptr_t g_page_bytes = 4096;

/// Puts zeros in place of the mapping from `page` on, where the file has ended. Async-signal-safe.
bool fill_with_zeros(uintptr_t page) {
  uintptr_t end = page + g_page_bytes;
  int access = PROT_READ | PROT_WRITE;  // for a mapping that has no CutGuard
  for (Mapping& mapping : g_mappings) {
    if (page + g_page_bytes <= mapping.begin || page >= mapping.end) continue;
    end = (mapping.end + g_page_bytes - 1) / g_page_bytes * g_page_bytes;
    access = PROT_READ;
    mapping.cut = true;
  }
  void* filled = mmap(reinterpret_cast<void*>(page), end - page, access,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return filled != MAP_FAILED;
}

void handle(int number, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  if (info->si_code == BUS_ADRERR && fill_with_zeros(at / g_page_bytes * g_page_bytes)) {
    ++g_cuts;
    errno = saved_errno;
    return;
  }
  signal(number, SIG_DFL);                // the instruction faults again and ends the process
  if (info->si_code <= 0) raise(number);  // somebody sent the signal, so it does not come again
}

}  // namespace

void guard_mappings() {
  static const bool done = [] {
    g_page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  static_cast<void>(done);
}

uint64_t cut_count() {
  return g_cuts;
}

CutGuard::CutGuard(const void* begin, size_t bytes) {
  guard_mappings();
  const std::lock_guard lock(g_taking);
  for (size_t i = 0; i < kMappings && slot_ == kNone; ++i) {
    if (g_mappings[i].end == 0) slot_ = i;
  }
  if (slot_ != kNone) g_mappings[slot_].cut = false;
  set(begin, bytes);
}

CutGuard::~CutGuard() {
  if (slot_ != kNone) g_mappings[slot_].end = 0;
}

void CutGuard::set(const void* begin, size_t bytes) {
  if (slot_ == kNone) return;
  g_mappings[slot_].begin = reinterpret_cast<uintptr_t>(begin);
  g_mappings[slot_].end = reinterpret_cast<uintptr_t>(begin) + bytes;
}

bool CutGuard::was_cut() const {
  return slot_ != kNone ? g_mappings[slot_].cut.load() : cut_count() != 0;
}

}  // namespace gpupeak::collector
