/* A host program that loads the interpreter given to it, and allocates device memory with and without Python
 * around the call: threads that Python does not know, threads that it has adopted, subinterpreters, code called
 * back from C, and before, between and after interpreters.
 * usage: embed LIBPYTHON EXPECTED PRELUDE.py */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void (*initialize)(int);
static int (*finalize)(void);
static int (*run)(const char *, void *);
static int (*ensure)(void);
static void (*release)(int);
static void *(*new_interpreter)(void);
static void (*end_interpreter)(void *);
static void *(*swap)(void *);
static void *(*save)(void);
static void (*restore)(void *);
static CUcontext context;
static char prelude[65536];
static char code[66000];

static void check(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "embed: %s failed\n", what);
  exit(1);
}

static void python(const char *text) {
  check(run(text, NULL) == 0, text);
}

/* Without any Python frame: sizes that the check expects to have none. */
__attribute__((noinline)) static void allocate_natively(size_t bytes) {
  CUdeviceptr at;
  cuCtxSetCurrent(context);
  check(cuMemAlloc(&at, bytes) == CUDA_SUCCESS, "cuMemAlloc");
}

static void *foreign_thread(void *unused) {
  (void)unused;
  allocate_natively(102);
  return NULL;
}

static void *adopted_thread(void *unused) {
  (void)unused;
  cuCtxSetCurrent(context);
  int state = ensure();
  python("recurse(3, 'adopted thread')");
  void *thread = save();
  allocate_natively(103);
  restore(thread);
  release(state);
  allocate_natively(104);
  return NULL;
}

/* Called by Python through ctypes, with or without the GIL. */
__attribute__((visibility("default"))) void call_back(void) {
  python("recurse(2, 'called back')");
}

__attribute__((visibility("default"))) void in_subinterpreter(void) {
  void *before = swap(NULL);
  swap(before);
  void *inner = new_interpreter();
  check(inner != NULL, "Py_NewInterpreter");
  python(code);
  python("recurse(2, 'subinterpreter')");
  end_interpreter(inner);
  swap(before);
}

static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  check(found != NULL, name);
  return found;
}

int main(int argc, char **argv) {
  check(argc == 4, "usage");
  check(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS, "cuInit");
  FILE *file = fopen(argv[3], "r");
  check(file != NULL && fread(prelude, 1, sizeof prelude - 1, file) > 0, "prelude");
  snprintf(code, sizeof code, "import sys\nsys.argv = ['embed', '%s']\n%s", argv[2], prelude);
  allocate_natively(101);

  void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  check(library != NULL, "dlopen");
  initialize = (void (*)(int))symbol(library, "Py_InitializeEx");
  finalize = (int (*)(void))symbol(library, "Py_FinalizeEx");
  run = (int (*)(const char *, void *))symbol(library, "PyRun_SimpleStringFlags");
  ensure = (int (*)(void))symbol(library, "PyGILState_Ensure");
  release = (void (*)(int))symbol(library, "PyGILState_Release");
  new_interpreter = (void *(*)(void))symbol(library, "Py_NewInterpreter");
  end_interpreter = (void (*)(void *))symbol(library, "Py_EndInterpreter");
  swap = (void *(*)(void *))symbol(library, "PyThreadState_Swap");
  save = (void *(*)(void))symbol(library, "PyEval_SaveThread");
  restore = (void (*)(void *))symbol(library, "PyEval_RestoreThread");

  initialize(0);
  cuCtxSetCurrent(context);
  python(code);
  python("recurse(4, 'embedded')");
  python("with_gil.call_back()");
  python("with_gil.in_subinterpreter()");

  void *thread = save();
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, foreign_thread, NULL);
  pthread_create(&threads[1], NULL, adopted_thread, NULL);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  restore(thread);
  allocate_natively(105);
  check(finalize() == 0, "Py_FinalizeEx");
  allocate_natively(106);
  puts("done");
  return 0;
}
