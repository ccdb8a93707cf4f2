// Go's collector preempts all goroutines by signals while they allocate from the C library by cgo, and while threads of C's
// own, which Go knows nothing of, do the same.
//
// usage: collected_go [ROUNDS]
package main

/*
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int g_done;

static void touch(size_t bytes) {
  char* block = malloc(bytes);
  memset(block, 1, bytes);
  free(block);
  char* pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *pages = 1;
  munmap(pages, 8192);
}

static void* busy(void* bytes) {
  while (!g_done) touch((size_t)bytes);
  return NULL;
}

enum { kThreads = 3 };
static pthread_t g_threads[kThreads];
static void start(void) {
  alarm(40); // a deadlock ends the program by this signal
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&g_threads[i], NULL, busy, (void*)(i + 100));
}
static void end(void) {
  g_done = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(g_threads[i], NULL);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

type node struct {
	left *node
	pad  [32]byte
}

func main() {
	rounds := 20
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	runtime.GOMAXPROCS(4)
	C.start()
	var done int32
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func(bytes int) {
			defer group.Done()
			for atomic.LoadInt32(&done) == 0 {
				C.touch(C.size_t(bytes))
			}
		}(i*50 + 10)
	}
	for round := 0; round < rounds; round++ {
		keep := make([]*node, 2000)
		for i := range keep {
			keep[i] = &node{left: &node{}}
		}
		runtime.GC()
		runtime.KeepAlive(keep)
	}
	atomic.StoreInt32(&done, 1)
	group.Wait()
	C.end()
	fmt.Println("ok")
}
