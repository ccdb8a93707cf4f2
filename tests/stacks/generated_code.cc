// Allocates below code that no unwind table describes: generated at run time, with a frame pointer
// as compilers of scripting languages keep it, and with anything else in its register. Run as
// stack_shapes.cc is; with an argument, also what libunwind itself does not survive.
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

volatile int g_sink;
bool g_all;
constexpr size_t kPage = 4096;

__attribute__((noinline)) void allocate() {
  free(realloc(malloc(24), 100));
}
__attribute__((noinline)) void recurse(int depth) {
  if (depth == 0) return allocate();
  recurse(depth - 1);
  g_sink = depth;
}
void shallow() {
  allocate();
  g_sink = 1;
}
void deep() {
  recurse(20);
  g_sink = 1;
}

/// Calls `call`, with `frame_pointer` in that register if it is of the kind that uses it for other
/// things.
using Generated = void (*)(void (*call)(), uintptr_t frame_pointer);
enum Kind { kKeepsFramePointer, kOtherUse };

/// Each piece of code is at a place of its own: libunwind remembers for good how it once left one.
class Generator {
 public:
  Generator()
      : at_(static_cast<uint8_t*>(mmap(nullptr, 16 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  Generated make(Kind kind) {
#ifdef __aarch64__
    // stp x29, x30, [sp, #-16]!; mov x29, sp or x1; blr x0; ldp x29, x30, [sp], #16; ret
    const uint32_t code[] = {0xa9bf7bfd, kind == kOtherUse ? 0xaa0103fdu : 0x910003fdu, 0xd63f0000,
                             0xa8c17bfd, 0xd65f03c0};
#else
    // push %rbp; mov %rsp or %rsi,%rbp; call *%rdi; pop %rbp; ret
    const uint8_t code[] = {0x55, 0x48, 0x89, kind == kOtherUse ? uint8_t{0xf5} : uint8_t{0xe5},
                            0xff, 0xd7, 0x5d, 0xc3};
#endif
    uint8_t* begin = at_;
    memcpy(begin, code, sizeof code);
    __builtin___clear_cache(reinterpret_cast<char*>(begin),
                            reinterpret_cast<char*>(begin + sizeof code));
    at_ += 32;
    return reinterpret_cast<Generated>(begin);
  }

 private:
  uint8_t* at_;
};

Generator g_generator;
const Generated g_keeps = g_generator.make(kKeepsFramePointer);
const Generated g_inner = g_generator.make(kKeepsFramePointer);

void generated_below_generated() {
  g_inner(deep, 0);
  g_inner(shallow, 0);
  g_sink = 2;
}

/// What a register may hold, as an address; each with code of its own.
struct OtherUse {
  Generated code = g_generator.make(kOtherUse);
  void operator()(uintptr_t value) {
    code(deep, value);
    code(shallow, value);
    allocate();
  }
};
OtherUse g_null, g_odd, g_far, g_below, g_zeros, g_above_stack, g_below_end;

__attribute__((noinline)) void all_uses(uintptr_t stack_end) {
  uintptr_t zeros[64] = {};
  volatile uintptr_t* used = zeros;
  used[0] = 0;
  const auto here = reinterpret_cast<uintptr_t>(zeros);
  g_keeps(generated_below_generated, 0);
  g_keeps(deep, 0);
  g_null(0);
  g_odd(here + 1);
  g_far(here + (1 << 20));
  g_below(here - 512);
  g_zeros(here + 128);
  if (stack_end == 0) return;
  g_above_stack(stack_end);
  if (g_all) g_below_end(stack_end - 8);
}

ucontext_t g_main_context, g_fiber_context;
uintptr_t g_fiber_end;
void fiber() {
  all_uses(g_fiber_end);
  swapcontext(&g_fiber_context, &g_main_context);
}

/// Fibers below memory that cannot be read, at one place and of less and less size: what a
/// remembered frame points to is gone when the next one stands there.
void run_fibers() {
  constexpr size_t kBytes = 16 * kPage;
  void* place = mmap(nullptr, kBytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < 60; ++i) {
    const size_t bytes = kBytes - i % 8 * kPage;
    mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    g_fiber_end = reinterpret_cast<uintptr_t>(place) + bytes;
    getcontext(&g_fiber_context);
    g_fiber_context.uc_stack.ss_sp = place;
    g_fiber_context.uc_stack.ss_size = bytes;
    g_fiber_context.uc_link = &g_main_context;
    makecontext(&g_fiber_context, fiber, 0);
    swapcontext(&g_main_context, &g_fiber_context);
    if (i % 2 == 0) {
      mprotect(place, bytes, PROT_NONE);
    } else {
      munmap(place, bytes);
    }
    allocate();
  }
}

}  // namespace

int main(int argc, char**) {
  g_all = argc > 1;
  for (int i = 0; i < 50; ++i) all_uses(0);
  run_fibers();
  // Threads one after the other take over what the last one left behind.
  for (int i = 0; i < 20; ++i) std::thread(all_uses, 0).join();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 50; ++k) all_uses(0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  puts("done");
  return 0;
}
