// The hooks in place of other allocators' functions. Each makes the call and tells track/heap of
// it, unless one of these functions calls another.
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/hook_scope.h"
#include "base/process_state.h"
#include "hooks/allocators.h"
#include "hooks/export.h"
#include "track/heap.h"
#include "track/host_failure.h"

namespace gpupeak::preload {

extern "C" {
/// Calls `function`; in allocator_call_*.S.
uintptr_t gpupeak_allocator_call(const void* function, const uintptr_t arguments[6]);
/// The personality routine of gpupeak_allocator_call: an exception leaves the call.
int gpupeak_allocator_left(int version, int actions, uint64_t exception_class, void* exception,
                           void* context);
}

namespace {

constexpr uint8_t kNone = AllocatorFunction::kNone;
constexpr AllocatorFunction kFunctions[] = {
#define ALLOCATES(name, bytes, count) {#name, AllocatorCall::kAllocate, kNone, bytes, count},
#define STORES(name, block, bytes) {#name, AllocatorCall::kStore, block, bytes, kNone},
#define REALLOCATES(name, block, bytes, count) \
  {#name, AllocatorCall::kReallocate, block, bytes, count},
#define RESIZES(name, block, bytes) {#name, AllocatorCall::kResize, block, bytes, kNone},
#define FREES(name, block) {#name, AllocatorCall::kFree, block, kNone, kNone},
#include "hooks/allocator_table.def"
#undef ALLOCATES
#undef STORES
#undef REALLOCATES
#undef RESIZES
#undef FREES
};
constexpr size_t kCount = sizeof kFunctions / sizeof *kFunctions;
static_assert(kFunctions[AllocatorFunction::kPlainNames - 1].name ==
              std::string_view("free_aligned_sized"));
constinit ReplacedFunction g_replaced[kCount];

using Arguments = uintptr_t[6];

size_t asked_bytes(const AllocatorFunction& function, const Arguments& arguments, void* block,
                   BlockSize& usable_bytes) {
  if (function.bytes == kNone) return usable_bytes(block);
  const size_t bytes = arguments[function.bytes];
  return function.count == kNone ? bytes : bytes * arguments[function.count];
}

__attribute__((noinline, cold)) void note_failure(const AllocatorFunction& function,
                                                  const Arguments& arguments, int error,
                                                  const CallerFrame& caller) {
  if (function.bytes == kNone) return;
  size_t bytes = arguments[function.bytes];
  if (function.count != kNone && __builtin_mul_overflow(bytes, arguments[function.count], &bytes)) {
    bytes = SIZE_MAX;
  }
  host_allocation_failed(GPUPEAK_KIND_HEAP, function.name, bytes, error, caller);
}

uintptr_t allocate(const AllocatorFunction& function, const ReplacedFunction& replaced,
                   const Arguments& arguments, const CallerFrame& caller) {
  uintptr_t result;
  {
    AllocatorScope scope;
    result = gpupeak_allocator_call(replaced.original, arguments);
  }
  void* block = reinterpret_cast<void*>(result);
  if (function.call == AllocatorCall::kStore) {
    block = nullptr;
    if (static_cast<int>(result) == 0)
      memcpy(&block, reinterpret_cast<const void*>(arguments[function.block]), sizeof block);
  }
  if (block != nullptr) {
    BlockSize& usable_bytes = *replaced.usable_bytes;
    heap_allocated(block, asked_bytes(function, arguments, block, usable_bytes),
                   usable_bytes(block), caller);
  } else {
    const bool stores = function.call == AllocatorCall::kStore;
    note_failure(function, arguments, stores ? static_cast<int>(result) : errno, caller);
  }
  return result;
}

uintptr_t reallocate(const AllocatorFunction& function, const ReplacedFunction& replaced,
                     const Arguments& arguments, const CallerFrame& caller) {
  BlockSize& usable_bytes = *replaced.usable_bytes;
  void* const old_block = reinterpret_cast<void*>(arguments[function.block]);
  const ReallocState state = heap_realloc_begin(old_block, usable_bytes(old_block));
  uintptr_t result;
  {
    AllocatorScope scope;
    result = gpupeak_allocator_call(replaced.original, arguments);
  }
  const size_t bytes = asked_bytes(function, arguments, old_block, usable_bytes);
  const bool resizes = function.call == AllocatorCall::kResize;
  void* const block = resizes ? old_block : reinterpret_cast<void*>(result);
  if (resizes ? result >= bytes : block != nullptr) {
    heap_realloc_end(state, block, bytes, usable_bytes(block), caller);
  } else if (bytes == 0 && !resizes) {
    heap_realloc_freed(state, old_block);
  } else {
    heap_realloc_failed(state, old_block);
    if (!resizes) note_failure(function, arguments, errno, caller);
  }
  return result;
}

/// A call that an exception may end.
struct OpenCall {
  const AllocatorFunction& function;
  const Arguments& arguments;
  const CallerFrame& caller;
};
constinit thread_local const OpenCall* t_call __attribute__((tls_model("initial-exec"))) = nullptr;

__attribute__((noinline)) uintptr_t record(size_t row, const Arguments& arguments,
                                           const CallerFrame& caller) {
  const AllocatorFunction& function = kFunctions[row];
  const ReplacedFunction& replaced = g_replaced[row];
  const bool frees = function.call == AllocatorCall::kFree;
  const uintptr_t old_block = function.block == kNone ? 0 : arguments[function.block];
  if (frees) {
    if (old_block != 0) heap_freed(reinterpret_cast<void*>(old_block), *replaced.usable_bytes);
    AllocatorScope scope;
    return gpupeak_allocator_call(replaced.original, arguments);
  }
  const bool has_old = old_block != 0 && (function.call == AllocatorCall::kReallocate ||
                                          function.call == AllocatorCall::kResize);
  if (has_old) return reallocate(function, replaced, arguments, caller);
  const OpenCall call{function, arguments, caller};
  t_call = &call;
  const uintptr_t result = allocate(function, replaced, arguments, caller);
  t_call = nullptr;
  return result;
}

bool is_inside_allocator() {
  return t_flags.in_allocator != 0 &&
         !was_left_by_longjmp(t_flags.in_allocator, arch::stack_pointer());
}

/// It passes on more arguments than a function may have. They are in registers, so that does no
/// harm.
template <size_t kRow>
uintptr_t hook(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f) {
  if (!host_recording() || is_inside_allocator()) {
    using Function =
        uintptr_t (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
    return reinterpret_cast<Function>(const_cast<void*>(g_replaced[kRow].original))(a, b, c, d, e,
                                                                                    f);
  }
  const Arguments arguments{a, b, c, d, e, f};
  return record(kRow, arguments, GPUPEAK_CALLER);
}

using Hook = uintptr_t (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
template <size_t... kRows>
constexpr std::array<Hook, kCount> make_hooks(std::index_sequence<kRows...>) {
  return {&hook<kRows>...};
}
constexpr std::array<Hook, kCount> kHooks = make_hooks(std::make_index_sequence<kCount>());

}  // namespace

size_t allocator_function_count() {
  return kCount;
}
const AllocatorFunction& allocator_function(size_t row) {
  return kFunctions[row];
}
ReplacedFunction& replaced_function(size_t row) {
  return g_replaced[row];
}
const void* allocator_hook(size_t row) {
  return reinterpret_cast<const void*>(kHooks[row]);
}

/// gpupeak_allocator_call is only called inside an AllocatorScope, which the exception leaves, too.
int gpupeak_allocator_left(int /*version*/, int actions, uint64_t /*exception_class*/,
                           void* /*exception*/, void* /*context*/) {
  constexpr int kCleanup = 2, kGoOn = 8;  // _UA_CLEANUP_PHASE, _URC_CONTINUE_UNWIND
  if ((actions & kCleanup) == 0) return kGoOn;
  t_flags.in_allocator = 0;
  const OpenCall* const call = t_call;
  t_call = nullptr;
  // operator new says only by an exception that there is no memory. What `call` refers to lies in
  // frames that are still there: they are unwound after this.
  if (call != nullptr) note_failure(call->function, call->arguments, ENOMEM, call->caller);
  return kGoOn;
}

}  // namespace gpupeak::preload
