// `gpupeak attach` and `detach` make a thread of the program call these functions, while that
// thread is in no allocator, loader or signal handler (tools/safe_point). The other threads go on
// meanwhile.
#include "gpupeak/attach.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/loader.h"
#include "hooks/allocators.h"
#include "hooks/attach_slots.h"
#include "hooks/export.h"
#include "life/process.h"
#include "log/log.h"
#include "log/log_file.h"
#include "thread/heap_windows.h"
#include "track/ledger.h"
#include "track/phases.h"

using namespace gpupeak::preload;

namespace {

/// Finds the real functions now, in a thread that may ask the loader, and not at the first call of
/// any thread.
void find_real_functions() {
  void* volatile block = malloc(1);
  free(block);
  sbrk(0);
}

/// Whether attach() has come to its end. If the command gives it up in its middle, a detach ends
/// what was begun, and the log says that it is not whole.
constinit bool g_is_whole = false;

void define_fact_in_scope(const char* name, const char* value) {
  const HookScope scope;
  define_fact(name, value);
}

void define_given_facts(const gpupeak_attach_call& call) {
  const HookScope scope;
  const char* at = call.facts;
  while (*at != 0) {
    const char* const value = at + strlen(at) + 1;
    define_fact(at, value);
    at = value + strlen(value) + 1;
  }
}

/// Clients of NVTX 2 call functions of a library that nobody has described, so they are not seen.
void say_if_nvtx_2_is_there() {
  bool is_there = false;
  for_each_object([&is_there](const dl_phdr_info& object) {
    is_there = strncmp(file_name(object), "libnvToolsExt.so", 16) == 0;
    return is_there;
  });
  const HookScope scope;
  if (is_there) define_fact("attach.unseen", "marks of NVTX 2 (libnvToolsExt)");
}

/// Tells the caller the log's path, and how many slots lead to our hooks.
void tell_log(gpupeak_attach_call& call) {
  const std::string_view path = log_path();
  memcpy(call.log, path.data(), path.size());
  call.log[path.size()] = 0;
  call.slots = hooked_slots();
}

bool begin_window_in_scope(uint32_t mode) {
  const HookScope scope;
  return open_window(*g_process, mode);
}

gpupeak_attach_answer attach(gpupeak_attach_call& call) {
  if (!prepare_slots()) return GPUPEAK_ATTACH_NO_MEMORY;
  long error = 0;
  const gpupeak_attach_answer result = attach_process(call.log, error);
  call.error = static_cast<int32_t>(-error);
  if (result != GPUPEAK_ATTACH_DONE) return result;
  g_is_whole = false;
  define_fact_in_scope("attach.is_whole", "no");
  if (leaves_allocator_out()) set_quality(GPUPEAK_Q_SECOND_MALLOC);
  find_real_functions();
  define_given_facts(call);
  say_if_nvtx_2_is_there();
  enter_process_phase("main");
  hook_all_slots();
  read_devices_at_attach();
  tell_log(call);
  if (call.host_mode <= GPUPEAK_HOST_COUNTERS || begin_window_in_scope(call.host_mode)) {
    define_fact_in_scope("attach.is_whole", "yes");
    g_is_whole = true;
    return GPUPEAK_ATTACH_DONE;
  }
  detach_process();
  put_back_slots();
  return GPUPEAK_ATTACH_NO_MEMORY;
}

template <typename Do>
void answer(gpupeak_attach_call* call, Do what) {
  const int saved_errno = errno;
  call->answer = call->version == GPUPEAK_ATTACH_VERSION ? what() : GPUPEAK_ATTACH_VERSION_DIFFERS;
  errno = saved_errno;
}

}  // namespace

/// Tells whether the process can be attached to. Changes nothing.
GPUPEAK_EXPORT void gpupeak_api_attach_look(gpupeak_attach_call* call) {
  answer(call, [&] {
    call->flags_offset =
        static_cast<int64_t>(reinterpret_cast<uintptr_t>(&t_flags) - pthread_self());
    call->flags_words = 3;  // in_hook, in_allocator, in_driver
    call->was_attached = was_attached_before() ? 1 : 0;
    if (!came_late()) return GPUPEAK_ATTACH_PRELOADED;
    return recording() ? GPUPEAK_ATTACH_ALREADY : GPUPEAK_ATTACH_DONE;
  });
}

GPUPEAK_EXPORT void gpupeak_api_attach(gpupeak_attach_call* call) {
  answer(call, [&] { return attach(*call); });
}

GPUPEAK_EXPORT void gpupeak_api_detach(gpupeak_attach_call* call) {
  answer(call, [&] {
    if (!came_late() || !recording()) return GPUPEAK_ATTACH_NOT;
    tell_log(*call);
    if (g_is_whole) read_devices_at_detach();
    if (!detach_process()) return GPUPEAK_ATTACH_BUSY;
    call->lost_slots = put_back_slots();
    return GPUPEAK_ATTACH_DONE;
  });
}
