/* Programs of which it is known whether GPU 0's memory grows at each step, and by how much. usage:
   grows NAME [WHERE]. A step takes and frees a buffer of 8 MiB, and 64 MiB are held all the time.
   WHERE: heap or mapped, then it is the host's memory; small: the heap, and a 64th of each size.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda.h"

#define MIB ((size_t)1 << 20)
#define CALL __attribute__((noinline)) static

static void check(CUresult result) {
  if (result != CUDA_SUCCESS) _exit(1);
}
static const char* where = "";
/* A mapping's size, in its first page. */
static CUdeviceptr map(size_t bytes) {
  void* const at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) _exit(1);
  *(size_t*)at = bytes;
  return (CUdeviceptr)at;
}
static CUdeviceptr take(size_t bytes) {
  CUdeviceptr address;
  if (strcmp(where, "heap") == 0) return (CUdeviceptr)malloc(bytes);
  if (strcmp(where, "small") == 0) return (CUdeviceptr)malloc(bytes / 64);
  if (strcmp(where, "mapped") == 0) return map(bytes);
  check(cuMemAlloc(&address, bytes));
  return address;
}
static void give(CUdeviceptr address) {
  if (strcmp(where, "mapped") == 0) {
    munmap((void*)address, *(size_t*)address);
  } else if (where[0] != 0) {
    free((void*)address);
  } else {
    check(cuMemFree(address));
  }
}

CALL void compute(void) {
  give(take(8 * MIB));
}
CALL CUdeviceptr keep(size_t bytes) {
  return take(bytes);
}
CALL CUdeviceptr keep_too(size_t bytes) {
  return take(bytes);
}
CALL CUdeviceptr load(size_t bytes) {
  return take(bytes);
}
CALL void keep_from_pool(size_t bytes) {
  CUdeviceptr address;
  check(cuMemAllocAsync(&address, bytes, 0));
}
CALL void keep_created(size_t bytes) {
  CUmemAllocationProp wanted;
  CUmemGenericAllocationHandle handle;
  memset(&wanted, 0, sizeof(wanted));
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  check(cuMemCreate(&handle, bytes, &wanted, 0));
}
CALL void steps(int count, size_t kept) {
  for (int i = 0; i < count; ++i) {
    compute();
    if (kept > 0) keep(kept);
  }
}

enum { kThreads = 4 };
static CUcontext context;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int turn;

/* A step of each thread in turn: how a loaded machine lets them run does not matter. */
static void* thread(void* number) {
  if (where[0] == 0) check(cuCtxSetCurrent(context));
  for (int i = 0; i < 20; ++i) {
    pthread_mutex_lock(&lock);
    while (turn % kThreads != *(const int*)number) pthread_cond_wait(&moved, &lock);
    steps(1, 2 * MIB);
    ++turn;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static void each_step(const char* name) {
  const int is_generation = strcmp(name, "generations") == 0,
            is_ring = strcmp(name, "replaced") == 0;
  CUdeviceptr kept[10];
  for (int i = 0; i < 65; ++i) {
    compute();
    if (is_ring && i >= 10) give(kept[i % 10]);
    kept[i % 10] = keep(2 * MIB);
    if (is_generation && i % 10 == 9) {
      for (int each = 0; each < 10; ++each) give(kept[each]);
    }
  }
}

int main(int count, char** arguments) {
  const char* name = count > 1 ? arguments[1] : "";
  const int forks = strcmp(name, "worker") == 0;
  if (count > 2) where = arguments[2];
  CUdevice device;
  if (forks) {
    const pid_t child = fork();
    if (child > 0) {
      int status;
      return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
    }
  }
  if (where[0] == 0) {
    check(cuInit(0));
    check(cuDeviceGet(&device, 0));
    check(cuDevicePrimaryCtxRetain(&context, device));
    check(cuCtxSetCurrent(context));
  }
  load(64 * MIB);
  if (strcmp(name, "half_percent") == 0) {
    steps(40, 64 * MIB / 200);
  } else if (strcmp(name, "ten_steps") == 0) {
    steps(11, MIB);
  } else if (strcmp(name, "fifth") == 0 || forks) {
    steps(30, 13 * MIB);
  } else if (strcmp(name, "two_kept") == 0) {
    for (int i = 0; i < 30; ++i) {
      compute();
      for (int each = 0; each < 3; ++each) keep(2 * MIB);
      keep_too(MIB);
    }
  } else if (strcmp(name, "every_third") == 0) {
    for (int i = 0; i < 90; ++i) steps(1, i % 3 == 2 ? 3 * MIB : 0);
  } else if (strcmp(name, "uneven") == 0) {
    for (int i = 0; i < 60; ++i) steps(1, (1 + (size_t)(i * 7 % 5)) * MIB);
  } else if (strcmp(name, "threads") == 0) {
    pthread_t all[kThreads];
    int numbers[kThreads];
    for (int i = 0; i < kThreads; ++i) {
      numbers[i] = i;
      if (pthread_create(&all[i], NULL, thread, &numbers[i]) != 0) return 1;
    }
    for (int i = 0; i < kThreads; ++i) pthread_join(all[i], NULL);
  } else if (strcmp(name, "pool") == 0) {
    for (int i = 0; i < 30; ++i) {
      compute();
      keep_from_pool(2 * MIB);
    }
  } else if (strcmp(name, "created") == 0) {
    for (int i = 0; i < 30; ++i) {
      compute();
      keep_created(2 * MIB);
    }
  } else if (strcmp(name, "frees_all") == 0) {
    CUdeviceptr kept[30];
    for (int i = 0; i < 30; ++i) {
      compute();
      kept[i] = keep(2 * MIB);
    }
    for (int i = 0; i < 30; ++i) give(kept[i]);
  } else if (strcmp(name, "steady") == 0) {
    steps(60, 0);
  } else if (strcmp(name, "loaded") == 0) {
    for (size_t i = 0; i < 73; ++i) load((1 + i % 5) * MIB);
  } else if (strcmp(name, "loaded_then_steps") == 0) {
    for (size_t i = 0; i < 73; ++i) {
      compute();
      load((1 + i % 5) * MIB);
    }
    steps(20, 0);
  } else if (strcmp(name, "loaded_then_used") == 0) {
    const CUdeviceptr input = take(MIB);
    for (size_t i = 0; i < 73; ++i) {
      compute();
      load(2 * MIB);
    }
    for (int i = 0; i < 100000; ++i) check(cuMemsetD8(input, 0, 16));
  } else if (strcmp(name, "loaded_large_first") == 0) {
    size_t sizes[40];
    for (size_t i = 0; i < 40; ++i) sizes[i] = i < 4 ? 12 * MIB : MIB;
    for (volatile size_t i = 0; i < 40; ++i) {
      compute();
      load(sizes[i]);
    }
  } else if (strcmp(name, "cache") == 0) {
    for (int i = 0; i < 60; ++i) steps(1, i < 40 ? 2 * MIB : 0);
  } else if (strcmp(name, "slower_cache") == 0) {
    for (int i = 1, next = 1; i < 500; ++i) {
      steps(1, i == next ? 2 * MIB : 0);
      if (i == next) next = next * 6 / 5 + 1;
    }
  } else if (strcmp(name, "generations") == 0 || strcmp(name, "replaced") == 0) {
    each_step(name);
  } else if (strcmp(name, "rise_and_fall") == 0) {
    CUdeviceptr kept[30];
    for (int i = 0; i < 30; ++i) {
      compute();
      kept[i] = keep(2 * MIB);
    }
    for (int i = 0; i < 30; ++i) {
      compute();
      give(kept[29 - i]);
    }
  } else {
    return 2;
  }
  return 0;
}
