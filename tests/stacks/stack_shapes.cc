// Allocates below every kind of frame that a stack walk must get right. Run with
// GPUPEAK_VERIFY_STACKS=1: each stack is then unwound by libunwind too, and verify_stacks.py reads
// from the log how many differed.
#include <alloca.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

volatile int g_sink;

__attribute__((noinline)) void allocate(size_t bytes) {
  void* block = malloc(bytes);
  memset(block, 1, bytes);
  free(realloc(block, bytes * 2));
}

__attribute__((noinline)) void recurse(int depth) {
  if (depth == 0) return allocate(24);
  recurse(depth - 1);
  g_sink = depth;
}

/// A frame of variable size: its CFA hangs on the frame pointer.
__attribute__((noinline)) void variable_frame(int i) {
  volatile char* room = static_cast<char*>(alloca(static_cast<size_t>(i % 37 + 1) * 16));
  room[0] = 1;
  recurse(i % 5);
  g_sink = room[0];
}

/// Larger than what is usual of a frame.
__attribute__((noinline)) void large_frame(int i) {
  volatile char room[300'000];
  room[i] = 1;
  recurse(i % 5);
  g_sink = room[i];
}

/// A realigned stack: gcc reaches its CFA through a saved register.
__attribute__((noinline)) void realigned_frame(int i) {
  alignas(64) volatile char room[64];
  room[i % 64] = 1;
  recurse(i % 3);
  g_sink = room[0];
}

/// The same where arguments lie on the stack as well: gcc keeps the CFA in a word of the frame.
__attribute__((noinline)) void realigned_with_arguments(int i, int b, int c, int d, int e, int f,
                                                        int g, int h) {
  alignas(64) volatile char room[64];
  volatile char* more = static_cast<char*>(alloca(static_cast<size_t>(i % 7 + 1) * 16));
  more[0] = room[i % 64] = 1;
  recurse(i % 3);
  g_sink = room[0] + more[0] + b + c + d + e + f + g + h;
}

// clang has no such attribute; its default omits the frame pointer as well.
#ifdef __clang__
#define WITHOUT_FRAME_POINTER __attribute__((noinline))
#else
#define WITHOUT_FRAME_POINTER __attribute__((noinline, optimize("O3,omit-frame-pointer")))
#endif

/// Uses all registers, the frame pointer among them, for other things.
WITHOUT_FRAME_POINTER long busy_registers(long a, long b, long c, long d) {
  long e = a ^ b, f = b * c, g = c - d, h = d + a, i = a * d;
  for (int k = 0; k < 3; ++k) {
    allocate(static_cast<size_t>(16 + (e & 63)));
    e += f;
    f ^= g;
    g += h;
    h -= i;
    i += e;
    a ^= i;
  }
  return a + b + c + d + e + f + g + h + i;
}

/// The same call site reached with an unlike outer stack at the same depth.
__attribute__((noinline)) void left() {
  recurse(2);
  g_sink = 1;
}
__attribute__((noinline)) void right() {
  recurse(2);
  g_sink = 2;
}

/// Two stacks alike in all return addresses that lie where the other's do: without `between` the
/// room is so much larger that the leftovers of the stack with it stay where its frames were. Only
/// the frame pointer tells them apart.
__attribute__((noinline)) void leftovers(int size) {
  volatile char* room = static_cast<char*>(alloca(static_cast<size_t>(size) * 16 + 16));
  room[0] = 1;
  allocate(88);
  g_sink = room[0];
}
__attribute__((noinline)) void between(int) {
  leftovers(0);
  g_sink = 3;
}

/// And two of which only the word tells them apart in which a realigned frame keeps its CFA: what
/// is aligned lies at one place for both, and below `room`, which nobody writes, is what the other
/// has left.
__attribute__((noinline)) void leftovers_realigned(int) {
  volatile char room[96];
  asm volatile("" : : "r"(&room));
  realigned_with_arguments(0, 1, 2, 3, 4, 5, 6, 7);
  g_sink = 5;
}
__attribute__((noinline)) void between_realigned(int) {
  volatile char room[24];
  asm volatile("" : : "r"(&room));
  leftovers_realigned(0);
  g_sink = 4;
}

__attribute__((noinline)) void leave_leftovers(int size, void (*one)(int), void (*other)(int)) {
  volatile char* room = static_cast<char*>(alloca(static_cast<size_t>(size) * 16 + 16));
  room[0] = 1;
  for (int i = 0; i < 8; ++i) {
    void (*volatile next)(int) = i % 2 == 0 ? one : other;
    next(size);
  }
}

void in_handler(int) {
  allocate(40);
}  // not allowed by POSIX, common all the same

jmp_buf g_jump;
int g_round;  // not a local: longjmp may lose those
__attribute__((noinline)) void jump_out(int depth) {
  allocate(32);
  if (depth == 0) longjmp(g_jump, 1);
  jump_out(depth - 1);
  g_sink = depth;
}

__attribute__((noinline)) void throw_from(int depth) {
  allocate(48);
  if (depth == 0) throw std::runtime_error("out");
  throw_from(depth - 1);
  g_sink = depth;
}

ucontext_t g_main_context, g_fiber_context;
void fiber() {
  recurse(4);
  variable_frame(7);
  swapcontext(&g_fiber_context, &g_main_context);
}

/// Fibers on stacks that are unmapped in between, so that remembered frames point into nothing.
void run_fibers() {
  for (int i = 0; i < 50; ++i) {
    const size_t bytes = 64 << 10;
    void* stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&g_fiber_context);
    g_fiber_context.uc_stack.ss_sp = stack;
    g_fiber_context.uc_stack.ss_size = bytes;
    g_fiber_context.uc_link = &g_main_context;
    makecontext(&g_fiber_context, fiber, 0);
    swapcontext(&g_main_context, &g_fiber_context);
    munmap(stack, bytes);
    allocate(64);
  }
}

void all_shapes(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    recurse(i % 60);
    variable_frame(i);
    realigned_frame(i);
    realigned_with_arguments(i, 1, 2, 3, 4, 5, 6, 7);
    realigned_with_arguments(i % 2, 1, 2, 3, 4, 5, 6, 7);
    g_sink = static_cast<int>(busy_registers(i, i + 1, i * 3, i ^ 5));
    (i % 2 != 0 ? left : right)();
    try {
      throw_from(i % 4);
    } catch (const std::runtime_error&) {
      allocate(56);
    }
  }
}

}  // namespace

int main() {
  all_shapes(2000);
  for (int size = 0; size < 16; ++size) {
    leave_leftovers(size, between, leftovers);
    leave_leftovers(size, between_realigned, leftovers_realigned);
  }
  recurse(1000);  // deeper than what is kept
  for (int i = 0; i < 200; ++i) large_frame(i);
  signal(SIGUSR1, in_handler);
  for (int i = 0; i < 200; ++i) raise(SIGUSR1);
  for (g_round = 0; g_round < 200; ++g_round) {
    if (setjmp(g_jump) == 0) jump_out(g_round % 5);
    allocate(72);
  }
  run_fibers();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(all_shapes, 500);
  for (std::thread& thread : threads) thread.join();
  puts("done");
  return 0;
}
