// How `gpupeak attach` talks to the library in a program: the command writes a gpupeak_attach_call
// into the program's memory, and has one of the program's threads call a function of the library
// with its address. Detaching goes the same way.
//
//   attach: host_mode, log, facts  →  the library opens a log  →  answer, log, slots
#pragma once

#include <stdint.h>

#define GPUPEAK_ATTACH_VERSION 1u

enum gpupeak_attach_answer {
  GPUPEAK_ATTACH_DONE = 1,
  GPUPEAK_ATTACH_VERSION_DIFFERS = 2, /* refused; so are all below */
  GPUPEAK_ATTACH_PRELOADED = 3,       /* the library was there from the start */
  GPUPEAK_ATTACH_ALREADY = 4,         /* it is attached */
  GPUPEAK_ATTACH_NOT = 5,             /* nothing to detach from */
  GPUPEAK_ATTACH_UNFIT = 6,           /* a sanitizer, another C library, gained privileges */
  GPUPEAK_ATTACH_OWN_MALLOC = 7,      /* the program has a malloc that is not the C library's */
  GPUPEAK_ATTACH_NO_LOG = 8,          /* `error` says why the log cannot be written */
  GPUPEAK_ATTACH_NO_MEMORY = 9, /* for what has to be put back later, or for the marks of blocks */
  GPUPEAK_ATTACH_BUSY = 10      /* another thread attaches or detaches */
};

typedef struct gpupeak_attach_call {
  uint32_t version;      /* GPUPEAK_ATTACH_VERSION */
  uint32_t answer;       /* enum gpupeak_attach_answer; 0: not answered yet */
  uint32_t host_mode;    /* enum gpupeak_host_mode */
  int32_t error;         /* errno */
  int64_t flags_offset;  /* out: where a thread's open hooks are, from its thread pointer on */
  uint32_t flags_words;  /* out: the number of words there; all are 0 if no hook is open */
  uint32_t was_attached; /* out: it was attached before, so threads may still be in a hook */
  uint64_t slots;        /* out: pointers that lead to the library, or were put back */
  uint64_t lost_slots;   /* out, of detach: pointers that hold something else by now */
  char log[4096];        /* in: the pattern; out: the log's path */
  char facts[8192];      /* in: names and values, each ended by a 0; an empty name ends them */
} gpupeak_attach_call;
