// As Debian 11's libunwind, which the portable packages bring: its fast way gives the byte before
// each return address. All else is the installed libunwind's. Says at the end how often that way
// was taken, on descriptor UNWINDS if there is such a variable.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int (*real_backtrace)(void**, int);
static void (*real_flush)(void*, uintptr_t, uintptr_t);
static int (*real_begin)(void*, void*, int);
static int (*real_step)(void*);
static int (*real_register)(void*, int, uintptr_t*);
void* real_context __attribute__((visibility("hidden")));
void* _ULx86_64_local_addr_space;

__attribute__((constructor)) static void load(void) {
  void* real = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (real == NULL) abort();
  real_backtrace = (int (*)(void**, int))dlsym(real, "unw_backtrace");
  real_flush = (void (*)(void*, uintptr_t, uintptr_t))dlsym(real, "_Ux86_64_flush_cache");
  real_begin = (int (*)(void*, void*, int))dlsym(real, "_ULx86_64_init_local2");
  real_step = (int (*)(void*))dlsym(real, "_ULx86_64_step");
  real_register = (int (*)(void*, int, uintptr_t*))dlsym(real, "_ULx86_64_get_reg");
  real_context = dlsym(real, "_Ux86_64_getcontext");
  _ULx86_64_local_addr_space = *(void**)dlsym(real, "_ULx86_64_local_addr_space");
}

static unsigned long unwinds;
__attribute__((destructor)) static void say(void) {
  const char* to = getenv("UNWINDS");
  if (to != NULL) dprintf(atoi(to), "%lu", unwinds);
}

int unw_backtrace(void** frames, int capacity) {
  __atomic_add_fetch(&unwinds, 1, __ATOMIC_RELAXED);
  const int count = real_backtrace(frames, capacity);
  for (int i = 1; i < count; ++i) frames[i - 1] = (char*)frames[i] - 1;  // without this function's
  return count - 1;
}
void _Ux86_64_flush_cache(void* space, uintptr_t begin, uintptr_t end) {
  real_flush(space, begin, end);
}
/// The registers must be the caller's.
__attribute__((naked)) int _Ux86_64_getcontext(void* context) {
  (void)context;
  __asm__("jmp *real_context(%rip)");
}
int _ULx86_64_init_local2(void* cursor, void* context, int flags) {
  return real_begin(cursor, context, flags);
}
int _ULx86_64_step(void* cursor) {
  return real_step(cursor);
}
int _ULx86_64_get_reg(void* cursor, int number, uintptr_t* value) {
  return real_register(cursor, number, value);
}
