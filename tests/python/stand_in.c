/* A stand-in for CPython 3.11 or 3.12 whose frames this program writes itself, word by word: two
 * calls of the evaluation function, four Python frames. It allocates below one stack until that is
 * known, changes one word that the stack rests on, allocates again, and puts the word back. Prints
 * for each allocation what a reader that trusts nothing must find: "SIZE WHAT: function:line …",
 * innermost first. usage: trampoline VERSION; PY_VERSION_HEX in hexadecimal. */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT unsigned long Py_Version;
EXPORT char PyCode_Type[512], PyFrame_Type[512], PyUnicode_Type[512], PyBytes_Type[512];
EXPORT char _PyRuntime[1024];

/* Where the versions keep what a frame's place and name are read from. */
struct layout {
  size_t interpreters, threads, thread_id, current_frame, call_previous;
  size_t code, previous, owner, first_line, instructions, first_traceable, text;
};
static const struct layout k311 = {40, 16, 152, 8, 16, 32, 48, 69, 72, 184, 168, 48};
static const struct layout k312 = {40, 72, 136, 0, 8, 0, 8, 70, 68, 192, 176, 40};
enum {
  kInstruction = 56,
  kIsEntry = 68,
  kFilename = 112,
  kName = 128,
  kTable = 136,
  kVersion = 92
};
enum { kStateFrame = 56, kMarks = 3 };
static const struct layout* at;
static int is_312;

static char* far_call; /* further out on the stack than any call of the evaluation */
static _Alignas(64) char interpreter[256], state[256], calls[3][64], frames[5][96], codes[5][256],
    strings[8][128], table[64];

static void put(char* place, size_t offset, const void* value) {
  memcpy(place + offset, &value, sizeof value);
}
static char* get(const char* place, size_t offset) {
  char* value;
  memcpy(&value, place + offset, sizeof value);
  return value;
}

EXPORT void* PyGILState_GetThisThreadState(void) {
  return state;
}

static void make_string(int i, const char* text) {
  const uint64_t length = strlen(text);
  const uint32_t compact_ascii = 1 << 2 | 32 | 64;
  put(strings[i], 8, PyUnicode_Type);
  memcpy(strings[i] + 16, &length, sizeof length);
  memcpy(strings[i] + 32, &compact_ascii, sizeof compact_ascii);
  strcpy(strings[i] + at->text, text);
}

/* Its instruction 2 * n is on line 100 * i + n. */
static void make_code(int i) {
  const int32_t line = 100 * i;
  const uint32_t version = is_312 ? 7 + (uint32_t)i : 0;
  put(codes[i], 8, PyCode_Type);
  put(codes[i], kFilename, strings[0]);
  put(codes[i], kName, strings[1 + i]);
  put(codes[i], kTable, table);
  memcpy(codes[i] + at->first_line, &line, sizeof line);
  memcpy(codes[i] + kVersion, &version, sizeof version);
}

static void make_frame(int i, char* previous, int instruction) {
  put(frames[i], at->code, codes[i]);
  put(frames[i], at->previous, previous);
  put(frames[i], kInstruction, codes[i] + at->instructions + 2 * instruction);
}

/* What a frame says, read by this program's own knowledge of what it wrote. */
static void print_frames(size_t size, const char* what, int none) {
  printf("%zu %s:", size, what);
  char* frame = none ? NULL : get(get(state, kStateFrame), at->current_frame);
  for (; frame != NULL; frame = get(frame, at->previous)) {
    if (is_312 && frame[at->owner] >= kMarks) continue;
    const char* code = get(frame, at->code);
    int32_t line;
    memcpy(&line, code + at->first_line, sizeof line);
    printf(" %s!%s:%d", get(code, kFilename) + at->text, get(code, kName) + at->text,
           line + (int)(get(frame, kInstruction) - code - at->instructions) / 2);
  }
  puts("");
}

static size_t size = 1000;
static __attribute__((noinline)) void allocate(const char* what, int none) {
  CUdeviceptr block;
  print_frames(size, what, none);
  if (cuMemAlloc(&block, size++) != CUDA_SUCCESS) exit(1);
}

/* No branch, so that there is one call: what is on the native stack stays the same. */
static void with_bytes(const char* what, char* place, const void* bytes, size_t count, int none) {
  char before[sizeof codes[0]];
  memcpy(before, place, count);
  const char* const whats[2] = {"as it stood", what};
  const void* const contents[2] = {before, bytes};
  for (int i = 0; i < 36; ++i) {
    const int changed = i / 6 % 2;
    memcpy(place, contents[changed], count);
    allocate(whats[changed], changed & none);
  }
  memcpy(place, before, count);
}
static void with_word(const char* what, char* place, size_t offset, const void* word, int none) {
  with_bytes(what, place + offset, &word, sizeof word, none);
}
static void with_byte(const char* what, char* place, size_t offset, char byte) {
  with_bytes(what, place + offset, &byte, 1, 0);
}

/* `marks`: what lies on the stack of the inner and of the outer call. */
static void change_all(char* const marks[2]) {
  char* const innermost_call = get(state, kStateFrame);
  with_word("another instruction", frames[0], kInstruction, codes[0] + at->instructions + 6, 0);
  with_word("another instruction further out", frames[3], kInstruction,
            codes[3] + at->instructions + 10, 0);
  with_word("an instruction that is not the code object's", frames[1], at->code, codes[4], 1);
  with_word("without its caller", frames[0], at->previous, get(frames[1], at->previous), 0);
  with_word("without the outermost frame", frames[2], at->previous, get(frames[3], at->previous),
            0);
  with_word("one frame less", innermost_call, at->current_frame, frames[1], 0);
  put(calls[1], at->current_frame, frames[1]);
  put(calls[1], at->call_previous, calls[0]);
  with_word("by another call", state, kStateFrame, calls[1], 0);
  with_word("of another file", codes[2], kFilename, strings[7], 0);
  with_word("no code object", codes[2], 8, PyBytes_Type, 1);
  with_word("of another thread", state, at->thread_id, NULL, 1);
  char other[sizeof codes[1]];
  memcpy(other, codes[1], sizeof other);
  put(other, kName, strings[6]);
  if (is_312) ++other[kVersion];
  with_bytes("another code object in its place", codes[1], other, sizeof other, 0);
  if (is_312) {
    put(marks[0], at->code, codes[4]);
    put(marks[0], kInstruction, codes[4] + at->instructions);
    with_byte("a mark that runs code", marks[0], at->owner, 0);
  } else {
    with_byte("all in one call", frames[1], kIsEntry, 0);
    with_byte("in three calls", frames[2], kIsEntry, 1);
    memcpy(far_call, marks[1], 64);
    with_word("of an outer call elsewhere", marks[0], at->call_previous, far_call, 0);
    memcpy(far_call, innermost_call, 64);
    with_word("of an inner call elsewhere", state, kStateFrame, far_call, 0);
  }
}

/* By this name it is as if Python code ran. What tells one call from the other lies on the stack.
 */
EXPORT int _PyEval_EvalFrameDefault(char* const* outer);
static int (*volatile evaluate)(char* const*) = _PyEval_EvalFrameDefault;  // no copy of it is made
EXPORT __attribute__((noinline)) int _PyEval_EvalFrameDefault(char* const* outer) {
  char mark[128] = {0};
  if (outer == NULL) {
    if (is_312) {
      mark[at->owner] = kMarks;
      put(frames[3], at->previous, mark);
    } else {
      frames[3][kIsEntry] = 1;
    }
    char* const marks[2] = {NULL, mark};
    const int result = evaluate(marks);
    __asm__ volatile("" : : "r"(mark) : "memory");
    return result;
  }
  char* const marks[2] = {mark, outer[1]};
  if (is_312) {
    mark[at->owner] = kMarks;
    put(mark, at->previous, frames[2]);
    put(frames[1], at->previous, mark);
    put(calls[0], at->current_frame, frames[0]);
    put(state, kStateFrame, calls[0]);
  } else {
    put(outer[1], at->call_previous, calls[0]);
    put(mark, at->call_previous, outer[1]);
    put(mark, at->current_frame, frames[0]);
    frames[1][kIsEntry] = 1;
    put(state, kStateFrame, mark);
  }
  change_all(marks);
  __asm__ volatile("" : : "r"(mark) : "memory");
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Py_Version = strtoul(argv[1], NULL, 16);
  is_312 = Py_Version >> 16 == 0x30c;
  at = is_312 ? &k312 : &k311;
  static const char* const texts[] = {"model.py",  "inner",  "caller",  "outer",
                                      "outermost", "marked", "renamed", "moved.py"};
  for (int i = 0; i < 8; ++i) make_string(i, texts[i]);
  /* Of two bytes each, 2 * n is one line further than 2 * (n - 1). */
  const uint64_t table_bytes = 20;
  put(table, 8, PyBytes_Type);
  memcpy(table + 16, &table_bytes, sizeof table_bytes);
  for (int i = 0; i < 10; ++i) {
    table[32 + 2 * i] = (char)(0x80 | 13 << 3);
    table[33 + 2 * i] = i == 0 ? 0 : 2;
  }
  for (int i = 0; i < 5; ++i) make_code(i);
  for (int i = 0; i < 4; ++i) make_frame(i, i < 3 ? frames[i + 1] : NULL, i + 1);
  put(state, at->thread_id, (void*)pthread_self());
  put(_PyRuntime, at->interpreters, interpreter);
  put(interpreter, at->threads, state);
  CUcontext context;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS) {
    return 1;
  }
  char call[64] = {0};
  far_call = call;
  const int result = evaluate(NULL);
  __asm__ volatile("" : : "r"(call) : "memory");
  return result;
}
