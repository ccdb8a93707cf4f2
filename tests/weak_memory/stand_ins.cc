// What the files under test use of others.
#include "base/clock.h"
#include "base/hook_scope.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "log/log.h"

namespace gpupeak::preload {

constinit thread_local ThreadFlags t_flags;
ProcessPage g_first_page;
ProcessPage* g_process = &g_first_page;
bool g_use_tsc = false;
CoarseClock g_coarse_clock = nullptr;

int call_filters() {
  return 1;
}
uint64_t realtime_ns() {
  return 1;
}
uint64_t defined_nodes() {
  return 0;
}
void set_quality(uint64_t) {}
void count(uint64_t gpupeak_counters_page::*, uint64_t) {}

}  // namespace gpupeak::preload
