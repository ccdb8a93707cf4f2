// malloc_trim, madvise and shmdt, after which less memory is resident. So a sample is taken before.
#include <malloc.h>
#include <sys/mman.h>

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "hooks/export.h"
#include "thread/sample.h"

namespace gpupeak::preload {
namespace {

using Trim = int (*)(size_t);
using Advise = int (*)(void*, size_t, int);
using Detach = int (*)(const void*);
constinit Trim g_trim = nullptr;
constinit Advise g_advise = nullptr;
constinit Detach g_detach = nullptr;

/// Called before main, as in exec.cc.
__attribute__((constructor)) void resolve() {
  find_next({{"malloc_trim", g_trim}, {"madvise", g_advise}, {"shmdt", g_detach}});
}

void sample_before() {
  if (!recording()) return;
  const HookScope scope;
  if (scope.entered()) sample_at_border();
}

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT int malloc_trim(size_t pad) {
  if (g_trim == nullptr) resolve();
  sample_before();
  return g_trim != nullptr ? g_trim(pad) : 0;
}

GPUPEAK_EXPORT int madvise(void* at, size_t bytes, int advice) {
  if (g_advise == nullptr) resolve();
  if (bytes >= kWorthASample && (advice == MADV_DONTNEED || advice == MADV_FREE)) sample_before();
  return g_advise(at, bytes, advice);
}

GPUPEAK_EXPORT int shmdt(const void* at) {
  if (g_detach == nullptr) resolve();
  sample_before();
  return g_detach(at);
}
