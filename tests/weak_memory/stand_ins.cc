#include "stand_ins.h"

#include <sys/mman.h>

#include <vector>

#include "base/clock.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "explorer.h"

namespace gpupeak::preload {

namespace {

struct Map {
  void* at;
  size_t bytes;
};
std::vector<Map> g_maps;

}  // namespace

constinit thread_local ThreadFlags t_flags;
ProcessPage g_first_page;
ProcessPage* g_process = &g_first_page;
constinit std::atomic<bool> g_libraries_start{false};
bool g_use_tsc = false;
CoarseClock g_coarse_clock = nullptr;

void* __attribute__((no_sanitize("thread"))) reserve_pages(size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_maps.push_back({at, bytes});
  weak::mapped(at, bytes);
  return at;
}
void* map_pages(size_t bytes) {
  return reserve_pages(bytes);
}
void unmap_pages(void*, size_t) {}
void unmap_all() {
  for (const Map& map : g_maps) munmap(map.at, map.bytes);
  g_maps.clear();
}
void begin_process(ProcessPage& page) {
  weak::per_thread(&t_flags, sizeof t_flags);
  weak::ignore(&g_process, sizeof g_process);
  unmap_all();
  begin_anew(page);
  page.pid = sys::getpid();
  g_process = &page;
}

int call_filters() {
  return 1;
}
uint64_t realtime_ns() {
  return 1;
}

}  // namespace gpupeak::preload
