/* Another library that is preloaded between a program and libcuda, as quotas are: counts, and calls the next one.
 * INTERPOSER_NEXT: how it finds that: "next", "handle" or "proc" (cuGetProcAddress). INTERPOSER_COUNT: a file for the number.
 * With OWN_DLSYM it gives itself out by dlsym too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef unsigned long long Pointer;
typedef void* Any;

static int calls;

static Any real_dlsym(Any handle, const char* name) {
#ifdef OWN_DLSYM
#ifdef __aarch64__
  const char* const kFirstVersion = "GLIBC_2.17";
#else
  const char* const kFirstVersion = "GLIBC_2.2.5";
#endif
  static Any (*real)(Any, const char*);
  if (real == NULL) *(Any*)&real = dlvsym(RTLD_NEXT, "dlsym", kFirstVersion);
  return real(handle, name);
#else
  return dlsym(handle, name);
#endif
}

static Any next_of(const char* name, const char* base) {
  const char* how = getenv("INTERPOSER_NEXT");
  if (how == NULL || strcmp(how, "next") == 0) {
    Any found = real_dlsym(RTLD_NEXT, name);
    if (found != NULL) return found;
  }
  Any driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (how != NULL && strcmp(how, "proc") == 0) {
    Result (*look_up)(const char*, Any*, int, uint64_t, Any);
    *(Any*)&look_up = real_dlsym(driver, "cuGetProcAddress_v2");
    Any found = NULL;
    if (look_up != NULL && look_up(base, &found, 12000, 0, NULL) == 0 && found != NULL) return found;
  }
  return real_dlsym(driver, name);
}

Result cuMemAlloc_v2(Pointer* at, size_t bytes) {
  static Result (*next)(Pointer*, size_t);
  if (next == NULL) *(Any*)&next = next_of("cuMemAlloc_v2", "cuMemAlloc");
  ++calls;
  return next(at, bytes);
}

Result cuMemFree_v2(Pointer at) {
  static Result (*next)(Pointer);
  if (next == NULL) *(Any*)&next = next_of("cuMemFree_v2", "cuMemFree");
  ++calls;
  return next(at);
}

#ifdef OWN_DLSYM
Any dlsym(Any restrict handle, const char* restrict name) {
  if (strcmp(name, "cuMemAlloc_v2") == 0) return (Any)(uintptr_t)&cuMemAlloc_v2;
  if (strcmp(name, "cuMemFree_v2") == 0) return (Any)(uintptr_t)&cuMemFree_v2;
  return real_dlsym(handle, name);
}
#endif

__attribute__((destructor)) static void say(void) {
  const char* path = getenv("INTERPOSER_COUNT");
  FILE* file = path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  fprintf(file, "%d\n", calls);
  fclose(file);
}
