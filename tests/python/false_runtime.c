/* A program that has the symbols of a CPython interpreter and none of its structures: what is found there must not
 * be believed, and must not hurt. usage: false_runtime VERSION WHAT; VERSION is PY_VERSION_HEX in hexadecimal. */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
/* As large as the real ones where they are looked into. */
EXPORT unsigned long Py_Version;
EXPORT char PyCode_Type[512], PyFrame_Type[512], PyUnicode_Type[512], PyBytes_Type[512];
EXPORT char _PyRuntime[1024];

static void *thread_state;
static char *memory; /* two pages, the second of which is not there */

EXPORT void *PyGILState_GetThisThreadState(void) {
  return thread_state;
}

static void put(char *at, size_t offset, const void *value) {
  memcpy(at + offset, &value, sizeof value);
}

static uintptr_t thread_id(void) {
  uintptr_t id;
  __asm__("mov %%fs:0, %0" : "=r"(id));
  return id;
}

/* A thread state that gives this thread's id at the place where each version keeps it, and in all other words the
 * same pointer. */
static void *make_state(const void *everywhere) {
  char *state = memory;
  for (size_t i = 0; i < 4096; i += 8) put(state, i, everywhere);
  static const size_t ids[] = {136, 152, 176};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; ++i) put(state, ids[i], (void *)thread_id());
  return state;
}

/* By this name it is as if Python code ran. */
EXPORT __attribute__((noinline)) int _PyEval_EvalFrameDefault(void) {
  CUdeviceptr at;
  for (size_t i = 1; i <= 20; ++i) {
    if (cuMemAlloc(&at, i * 1000) != CUDA_SUCCESS) return 1;
    void *volatile block = malloc(i << 20); /* large ones would have Python's lines, too */
    if (block == NULL) return 1;
    free(block);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  Py_Version = strtoul(argv[1], NULL, 16);
  const char *what = argv[2];
  memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(memory + 4096, 4096);
  char *object = malloc(4096);
  if (strcmp(what, "null") == 0) {
    thread_state = NULL;
  } else if (strcmp(what, "wild") == 0) {
    thread_state = (void *)0x4141414141414141;
  } else if (strcmp(what, "edge") == 0) {
    thread_state = memory + 4096 - 16;
  } else if (strcmp(what, "zero") == 0) {
    thread_state = make_state(NULL);
  } else if (strcmp(what, "loop") == 0) {
    thread_state = make_state(memory); /* everything is the thread state itself */
  } else if (strcmp(what, "frames") == 0) {
    /* One object that is frame, code, name and table at once, of whatever type is asked for next. */
    for (size_t i = 0; i < 4096; i += 8) put(object, i, object);
    thread_state = make_state(object);
    put(object, 8, PyFrame_Type);
  } else if (strcmp(what, "codes") == 0) {
    for (size_t i = 0; i < 4096; i += 8) put(object, i, object);
    thread_state = make_state(object);
    put(object, 8, PyCode_Type);
  } else if (strcmp(what, "entries") == 0) {
    /* A chain of entry frames without an end. */
    for (size_t i = 0; i < 4096; i += 8) put(object, i, object);
    memset(object + 64, 3, 32);
    thread_state = make_state(object);
  } else if (strcmp(what, "free_threaded") == 0) {
    memcpy(_PyRuntime, "xdebugpy", 8);
    put(_PyRuntime, 8, (void *)(uintptr_t)Py_Version);
    put(_PyRuntime, 16, (void *)1);
    thread_state = make_state(object);
  } else if (strcmp(what, "offsets") == 0) {
    memcpy(_PyRuntime, "xdebugpy", 8);
    put(_PyRuntime, 8, (void *)(uintptr_t)Py_Version);
    for (size_t i = 24; i < sizeof _PyRuntime; i += 8) put(_PyRuntime, i, (void *)(i * 31 % 4096));
    thread_state = make_state(object);
  } else {
    return 2;
  }
  CUcontext context;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS) {
    return 1;
  }
  if (_PyEval_EvalFrameDefault() != 0) return 1;
  puts("done");
  return 0;
}
