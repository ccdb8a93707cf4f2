/*
 * log_format.h: the event log as it lies in the file. The one header that the preload (writer) and
 * the collector (reader) share; compiles alone as C11 and as C++20. docs/log-format.md is the prose.
 *
 *   0          4096                 chunks_offset                            file_bytes
 *   +----------+--------------------+-----------+-----------+-- … --+--------+----------+
 *   |FileHeader| CountersPage       | chunk     | chunk     |       | chunk  | a hole   |
 *   | one page | two pages          | 4 KiB · n | 4 KiB · n |       |        | or: end  |
 *   +----------+--------------------+-----------+-----------+-- … --+--------+----------+
 *
 *   a chunk     +-------------+--------+--------+-- … --+--------+----------------+
 *               | ChunkHeader | record | record |       | record | 0 0 0 0 …      |
 *               | 64 bytes    |        |        |       |        | filler         |
 *               +-------------+--------+--------+-- … --+--------+----------------+
 *
 * A zero byte where a tag is expected is filler: no further record follows in this chunk. A writer
 * stores a record's body first and its tag last, so that a record is either whole or not there,
 * whenever the process dies.
 *
 * A record is a tag byte and fields. All integers are LEB128 varints, signed ones zigzag first:
 *
 *     bit   7   6   5   4   3   2   1   0
 *         +---+---------------------------+
 *         | c | 7 bits, the lowest first  |   c = 1: the value goes on in the next byte
 *         +---+---------------------------+
 *     300 = 0b10 0101100  →  ac 02          zigzag: 0 → 0, -1 → 1, 1 → 2, -2 → 3 …
 *
 * Change a layout or the meaning of a field => bump GPUPEAK_LOG_VERSION. A new extended tag, or new
 * fields at the end of an extended record, need no bump: readers skip what they do not know.
 */
#ifndef GPUPEAK_LOG_FORMAT_H
#define GPUPEAK_LOG_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define GPUPEAK_LOG_VERSION 1u
#define GPUPEAK_LOG_MAGIC UINT64_C(0x31474f4c4b505047) /* "GPPKLOG1", little endian */
#define GPUPEAK_CHUNK_MAGIC UINT32_C(0x4b4e4843)       /* "CHNK" */
#define GPUPEAK_LOG_PAGE 4096u
#define GPUPEAK_LOG_MAX_DEVICES 24u
/* In gpupeak_chunk_header.slot: the writer is another process, such as `gpupeak mark`. */
#define GPUPEAK_FOREIGN_SLOT (1u << 31)
#define GPUPEAK_COUNTERS_BYTES (2u * GPUPEAK_LOG_PAGE) /* one page in older logs */
#define GPUPEAK_MAX_FRAMES 1024u

/* FileHeader.clock: what a tick is. Ticks become nanoseconds through the (ticks, monotonic_ns) pairs
 * in the file header, in every chunk header and in the counters page. */
enum gpupeak_clock {
  GPUPEAK_CLOCK_MONOTONIC_NS = 0,
  GPUPEAK_CLOCK_TSC = 1,   /* one count of the processor's own counter */
  GPUPEAK_CLOCK_TSC_16 = 2 /* GPUPEAK_CYCLES_OF_TICK of them */
};
/* A tick is less than one thread takes to hand something to another. A finer stamp has noise alone,
 * which does not compress. */
#define GPUPEAK_CYCLES_OF_TICK 16u

/* FileHeader.host_mode */
enum gpupeak_host_mode {
  GPUPEAK_HOST_OFF = 0,      /* heap and mmap not hooked: host figures are null */
  GPUPEAK_HOST_COUNTERS = 1, /* heap peak from the counters page only; mappings logged */
  GPUPEAK_HOST_SAMPLED = 2,  /* heap events are a Poisson sample by bytes (FileHeader.sample_bytes) */
  GPUPEAK_HOST_FULL = 3,     /* every event */
  GPUPEAK_HOST_AUTO = 4      /* every event at first; then, by SAMPLING records, a sample of small blocks */
};

/* FileHeader.flags */
#define GPUPEAK_FLAG_LATE_START 1u /* opened after the process had run a while: earlier host blocks unseen */
#define GPUPEAK_FLAG_COUNTED 4u    /* a child that was only counted at first: its heap's counters
                                      are whole, earlier mappings are in MAP records without a
                                      stack */
#define GPUPEAK_FLAG_ATTACHED 8u   /* opened by `gpupeak attach`: earlier blocks are unseen, and so
                                      are their frees; facts attach.* say what is known */
#define GPUPEAK_FLAG_FORKED 2u     /* a forked child's own log: blocks inherited from the parent unseen */

/* CountersPage.quality: one bit for each kind of degradation; the reader makes warnings of them. */
#define GPUPEAK_Q_NO_LIBUNWIND (1u << 0)      /* libunwind not loadable: libgcc's unwinder used */
#define GPUPEAK_Q_NO_UNWINDER (1u << 1)       /* none at all: call sites are one frame deep */
#define GPUPEAK_Q_FOREIGN_MALLOC (1u << 2)    /* the program defines malloc itself: its heap is unseen */
#define GPUPEAK_Q_DISK_FULL (1u << 3)         /* the log could not grow */
#define GPUPEAK_Q_TRIE_FULL (1u << 4)         /* no room for new stacks: events carry stack 0 */
#define GPUPEAK_Q_DEVICE_TABLE_FULL (1u << 5) /* live map of device memory full: events lost */
#define GPUPEAK_Q_NO_DRIVER (1u << 6)         /* CUDA was asked for, libcuda.so.1 not loadable */
#define GPUPEAK_Q_BAD_ENVIRONMENT (1u << 7)   /* a GPUPEAK_* variable was not understood */
#define GPUPEAK_Q_NO_TSC (1u << 8)            /* no invariant TSC: clock_gettime used */
#define GPUPEAK_Q_LOG_MAX (1u << 9)           /* the log reached GPUPEAK_LOG_MAX: heap events sampled since */
#define GPUPEAK_Q_SECOND_MALLOC (1u << 10)    /* an allocator beside malloc, some of whose calls are unseen */
#define GPUPEAK_Q_HOST_REFUSED (1u << 11)     /* no degradation: there are HOST_FAILED records */
#define GPUPEAK_Q_PYTHON_OFF (1u << 16)       /* Python ran, and its frames could not be read: fact python.off */
#define GPUPEAK_Q_HEAP_SAMPLED (1u << 17)     /* GPUPEAK_HOST_AUTO has gone over to a sample */
#define GPUPEAK_Q_OTHERS_SAMPLED (1u << 18)   /* the same, of blocks of CUDA's calls and of libraries that start alone */

/* ---- file header: written once, before the first chunk ------------------------------------- */
typedef struct gpupeak_file_header {
  uint64_t magic;              /* GPUPEAK_LOG_MAGIC */
  uint32_t version;            /* GPUPEAK_LOG_VERSION */
  uint32_t header_bytes;       /* 4096 */
  uint64_t cookie;             /* random; every chunk repeats it (ChunkHeader.check) */
  uint64_t counters_offset;    /* of CountersPage */
  uint64_t chunks_offset;      /* of the first chunk */
  uint32_t clock;              /* enum gpupeak_clock */
  uint32_t host_mode;          /* enum gpupeak_host_mode */
  uint64_t start_ticks;        /* one instant, three clocks */
  uint64_t start_monotonic_ns;
  uint64_t start_realtime_ns;  /* since 1970 */
  uint32_t pid, ppid;
  int32_t rank;                /* -1: none known */
  uint32_t flags;              /* GPUPEAK_FLAG_* */
  uint64_t process_start_time; /* /proc/self/stat field 22: with pid, names one process for good */
  uint64_t sample_bytes;       /* mean of the Poisson sampling; 0 unless sampled */
  uint64_t initial_brk_bytes;  /* the address of brk at start, from which samples count
                                  brk_growth */
  char tool_version[32];       /* nul-terminated */
  uint8_t boot_id[16];         /* of the machine's boot, random; zeros: not known */
  uint64_t pid_namespace;      /* inode of /proc/self/ns/pid: where pid is a name; 0: not known */
  uint32_t run_pid;            /* what `gpupeak run` started: this process or an ancestor; 0: not
                                  said */
  uint32_t reserved;
  uint64_t run_id;             /* random, a secret of one run's processes (GPUPEAK_RUN_ID); 0: not
                                  said */
} gpupeak_file_header;

/* ---- counters page: rewritten in place, each field atomically ------------------------------ */
/* Memory kinds: memory_kinds.def says of each what it is, and whether it counts into a sum. */
enum gpupeak_kind {
  GPUPEAK_KIND_NONE = 0,
#define GPUPEAK_MEMORY_KIND(NAME, number, SIDE, name, IN_SUM, COUNTER, PLACE, ROUNDING, END, text) \
  GPUPEAK_KIND_##NAME = number,
#include "gpupeak/memory_kinds.def"
#undef GPUPEAK_MEMORY_KIND
  GPUPEAK_KIND_LIMIT = 32
};
#define GPUPEAK_FIRST_DEVICE_KIND 16u
#define GPUPEAK_DEVICE_KINDS 16u
#define GPUPEAK_FIRST_KINDS 8u /* their gauges stand beside their device's total; the others':
                                  more_kinds */

typedef struct gpupeak_gauge {
  uint64_t live, peak; /* bytes */
} gpupeak_gauge;

typedef struct gpupeak_device_counters {
  gpupeak_gauge total;                     /* of the kinds that count into the sum */
  gpupeak_gauge kind[GPUPEAK_FIRST_KINDS]; /* by kind - GPUPEAK_FIRST_DEVICE_KIND; the others: more_kinds */
  uint64_t alloc_count;
} gpupeak_device_counters;

/* CountersPage.window_answer, its low byte */
enum gpupeak_window_answer {
  GPUPEAK_WINDOW_BEGUN = 1,
  GPUPEAK_WINDOW_ENDED = 2,
  GPUPEAK_WINDOW_OPEN_ALREADY = 3, /* refused, as all that follow */
  GPUPEAK_WINDOW_NOT_OPEN = 4,
  GPUPEAK_WINDOW_NO_MEMORY = 5, /* for the marks of blocks */
  GPUPEAK_WINDOW_NO_LOG = 6,    /* the log cannot grow for now */
  GPUPEAK_WINDOW_UNKNOWN = 7    /* not understood, or withdrawn */
};

enum gpupeak_exit_kind { GPUPEAK_EXIT_UNKNOWN = 0, GPUPEAK_EXIT_CODE = 1, GPUPEAK_EXIT_SIGNAL = 2 };

typedef struct gpupeak_counters_page {
  uint64_t quality;            /* GPUPEAK_Q_* */
  uint64_t dropped_events;     /* events that should have been logged and were not */
  uint64_t reentrant_calls;    /* allocator calls from a signal handler inside a hook: passed through */
  uint64_t truncated_stacks;   /* deeper than GPUPEAK_MAX_FRAMES: innermost kept */
  uint64_t early_calls;        /* allocator calls before the log could be opened: passed through */
  uint64_t unmatched_frees;    /* device frees of pointers never seen */
  uint64_t device_events;
  uint64_t verified_stacks;    /* GPUPEAK_VERIFY_STACKS=1: stacks that a full unwinding confirmed */
  uint64_t wrong_stacks;       /* … and that it did not confirm */
  uint64_t file_bytes;         /* end of the last chunk handed out */
  uint64_t heap_alloc_count, heap_free_count; /* as exact as heap.live */
  gpupeak_gauge heap;          /* usable bytes; each thread adds in steps of 64 KiB */
  gpupeak_gauge pinned, registered, managed; /* all devices */
  uint64_t end_ticks, end_monotonic_ns;      /* last refresh of the pair; 0: none yet */
  uint32_t ended;              /* 1: the process passed its exit handlers */
  uint32_t exit_kind;          /* enum gpupeak_exit_kind; set by `gpupeak run` */
  int32_t exit_code;           /* exit code, or the signal */
  uint32_t device_count;       /* devices seen */
  uint64_t self_bytes;         /* what the preload has mapped for itself, log chunks included */
  uint64_t rss_peak_bytes;     /* VmHWM at exit; else ru_maxrss by `gpupeak run`; 0: not known */
  gpupeak_device_counters device[GPUPEAK_LOG_MAX_DEVICES];
  uint64_t unread_python_stacks; /* device events whose Python frames could not be read */
  uint64_t exit_monotonic_ns;    /* when `gpupeak run` had waited for its end; 0: it did not */
  /* Zeros in older logs, whose chunks begin one page behind the counters. */
  gpupeak_gauge more_kinds[GPUPEAK_LOG_MAX_DEVICES][GPUPEAK_DEVICE_KINDS - GPUPEAK_FIRST_KINDS];
  uint64_t run_id; /* as in the header */
  /* Requests from outside, in cache lines that nothing else is written to. A request's low byte is
   * an enum gpupeak_host_mode: how to record the heap from now on; COUNTERS: end that; OFF: the
   * request is taken back. The bits above it count requests. */
  uint64_t others_brk_bytes; /* what others than malloc have taken by brk and sbrk */
  uint64_t unused[2];
  uint64_t window_request; /* by `gpupeak attach` and `detach`, compared and exchanged */
  uint64_t window_answer;  /* by the process: the request's number, enum gpupeak_window_answer */
  uint64_t window_answer_ns; /* when, CLOCK_MONOTONIC */
  uint64_t window_count;     /* windows begun */
  uint32_t window_listens;   /* 1: the process looks at window_request */
  uint32_t window_is_open;
} gpupeak_counters_page;

/* ---- chunks ---------------------------------------------------------------------------------- */
enum gpupeak_chunk_kind {
  GPUPEAK_CHUNK_EVENTS = 1,
  GPUPEAK_CHUNK_DEFINITIONS = 2,
  GPUPEAK_CHUNK_PART = 3, /* the log of another program of this process; made by `gpupeak run` */
  GPUPEAK_CHUNK_HEAP = 4, /* a slot's hot records, apart from its EVENTS, so that who asks for
                             devices need not read them. Older logs have them among the events */
  GPUPEAK_CHUNK_RUN = 5,  /* the record of the run, where it is too long for the header's page */
  GPUPEAK_CHUNK_NAMES = 6 /* names of functions that `gpupeak run` has kept, packed: collector/log/symbol_table.h */
};

/* A chunk starts at a multiple of 4 KiB of the file. A page that holds no valid header was handed
 * out but not begun: go on to the next page. Every chunk is decoded alone: at its start the running
 * time is start_ticks and the running address 0. */
typedef struct gpupeak_chunk_header {
  uint32_t magic;              /* GPUPEAK_CHUNK_MAGIC; written last */
  uint32_t bytes;              /* of the chunk, this header included */
  uint64_t check;              /* FileHeader.cookie ^ offset of this chunk in the file */
  uint32_t kind;               /* enum gpupeak_chunk_kind */
  uint32_t slot;               /* the writer. Events of one slot are in program order; those in its
                                  two kinds of chunks are ordered by their times */
  uint64_t sequence;           /* 0, 1, 2 … of the slot's chunks of this kind; of the definitions */
  uint64_t start_ticks;
  uint64_t start_monotonic_ns; /* taken with start_ticks */
  uint32_t tid;                /* the thread that holds the slot at the chunk's start */
  uint32_t reserved[3];
} gpupeak_chunk_header;

/* Behind the header of a GPUPEAK_CHUNK_PART. The whole other log begins at the second page. */
typedef struct gpupeak_log_part {
  uint64_t bytes;     /* of that log: whole pages */
  char program[256];  /* file name, nul-terminated */
} gpupeak_log_part;

/* ---- the record of the run ------------------------------------------------------------------------
 * At GPUPEAK_RUN_RECORD_OFFSET of the log of the process that `gpupeak run` started. `run` writes
 * it when that process has ended: JSON that names the run's other logs and the processes that left
 * none (docs/log-format.md). The text lies at `offset`: behind this in the same page, or in a
 * GPUPEAK_CHUNK_RUN, behind the chunk's header. */
#define GPUPEAK_RUN_RECORD_OFFSET 2048u
typedef struct gpupeak_run_record {
  uint64_t offset, bytes; /* 0: there is none */
} gpupeak_run_record;

/* ---- packed logs -------------------------------------------------------------------------------
 * A log may be compressed with zstd as a whole. If `gpupeak run` packed it in its place, after its
 * process had ended, it begins with this skippable frame: by that the next run knows that
 * it may replace the file, as it may replace a log. */
#define GPUPEAK_PACKED_MAGIC 0x184d2a50u /* of a skippable frame, by zstd's own format */
#define GPUPEAK_PACKED_TEXT "gpupeak.packed/1"
typedef struct gpupeak_packed_mark {
  uint32_t magic;              /* GPUPEAK_PACKED_MAGIC */
  uint32_t bytes;              /* of what follows */
  char text[16];               /* GPUPEAK_PACKED_TEXT, not terminated */
} gpupeak_packed_mark;

/* ---- hot records: what the heap does; most of a log, so they have no length -----------------------
 *
 *     bit   7   6   5   4   3   2   1   0
 *         +---+---+---+---+---------------+
 *     tag | 0 | 0 | U | T |     type      |   T = GPUPEAK_TAG_TIMED, U = GPUPEAK_TAG_UNALIGNED
 *         +---+---+---+---+---------------+
 *         | [dt]                          |   only with T
 *         | address                       |
 *         | [size] [slack] [stack]        |   only of ALLOC and REALLOC_END
 *         +-------------------------------+
 *
 * malloc(100) gave 0x5500a2b0, which has 104 usable bytes, to the call stack 7. The running address
 * was 0x5500a2a0, and the record has no stamp of its own:
 *
 *     01 02 64 08 07       ALLOC, address + 1 · 16 (zigzag 2), size 100, slack 4 (zigzag 8), stack 7
 *
 *   dt       only with GPUPEAK_TAG_TIMED: ticks since the slot's running time. Without it: the time
 *            of the record before. While one thread logs alone, only some records are stamped
 *   address  zigzag delta to the running address, in units of 16 bytes, or of 1 with
 *            GPUPEAK_TAG_UNALIGNED. The running address is kept in bytes: with units of 16 the delta
 *            is between (address >> 4) and (running >> 4).
 *   size     bytes asked for
 *   slack    usable bytes - size (usable: what the allocator really set aside); zigzag, since an
 *            allocator without malloc_usable_size reports 0
 *   stack    node of the stack trie, 0 = none
 */
enum gpupeak_hot_record {
  GPUPEAK_REC_ALLOC = 1,         /* logged after the real call: address size slack stack */
  GPUPEAK_REC_FREE = 2,          /* logged before the real call: address */
  GPUPEAK_REC_REALLOC_BEGIN = 3, /* before: address of the old block, which stays live till… */
  GPUPEAK_REC_REALLOC_END = 4,   /* …after: address size slack stack of the new; the old is gone */
  GPUPEAK_REC_REALLOC_FAILED = 5 /* …or after: address of the old block, which lives on unchanged */
};
#define GPUPEAK_TAG_TYPE_MASK 0x0fu
#define GPUPEAK_TAG_TIMED 0x10u
#define GPUPEAK_TAG_UNALIGNED 0x20u
#define GPUPEAK_TAG_EXTENDED 0x80u
#define GPUPEAK_MAX_HOT_RECORD 64u
#define GPUPEAK_MAX_PLACES 16u /* of RESIDENT */

/* ---- extended records: all else ---------------------------------------------------------------------
 *
 *     bit   7   6   5   4   3   2   1   0
 *         +---+---------------------------+
 *     tag | 1 |           type            |
 *         +---+---------------------------+
 *         | length of the body in bytes   |   so that a reader can pass over what it does not know
 *         +-------------------------------+
 *         | dt, then the record's fields  |
 *         +-------------------------------+
 *
 * The thread ends its innermost phase of source 2, ten ticks after its record before:
 *
 *     87 04 0a 00 02 00    PHASE_POP, four bytes: dt 10, scope 0 (this thread), source 2, instance 0
 *
 * Three kernels had device block 5 among their arguments, all in one stream: the first 300 ticks
 * before this record, the last 20. The longest gap between two was 200 ticks, and began 250 ticks
 * before this record:
 *
 *     b1 0c 0a 00 05 03 ac 02 14 c8 01 fa 01 01
 *                          USED, twelve bytes: dt 10, arena 0, block 5, count 3, first 300, last 20,
 *                          idle 200, idle_since 250, streams 1
 *
 * In event chunks the body starts with dt (ticks since the slot's running time), always. Fields marked
 * s are strings: length, bytes (any bytes; readers sanitise). "string" is an id of the string table.
 * seq numbers the device events of all threads without a gap, in the order in which the counters moved.
 * device: ordinal + 1, 0 = host or unknown. free/total: value + 1, 0 = not known.
 */
enum gpupeak_extended_record {
  GPUPEAK_REC_THREAD = 0x81, /* dt tid s:name: from here on the slot belongs to this thread. In both
                                of the slot's kinds of chunks, if they have begun */
  GPUPEAK_REC_MAP = 0x82,    /* dt address bytes prot kind stack; logged after the real call. Replaces
                                what was mapped there. kind: MMAP_ANON, MMAP_FILE, BACKING, DRIVER */
  GPUPEAK_REC_UNMAP = 0x83,  /* dt address bytes; logged before; may split mappings */
  GPUPEAK_REC_PROTECT = 0x84, /* dt address bytes prot; with prot 0 a mapping is addresses only */
  GPUPEAK_REC_REMAP = 0x85,  /* dt old_address old_bytes new_address new_bytes stack; logged after
                                the real call. old_bytes 0: the old mapping stays too
                                (MREMAP_DONTUNMAP) */
  GPUPEAK_REC_PHASE_PUSH = 0x86, /* dt scope source name(string) instance category(string) s:text;
                                    scope 0 this thread, 1 the process; text: the name, if name is 0 */
  GPUPEAK_REC_PHASE_POP = 0x87,  /* dt scope source instance: closes the scope's innermost open phase of
                                    the same source and instance; if none, and source is AUTO, of any */
  GPUPEAK_REC_DEVICE_ALLOC = 0x88, /* dt seq id kind device address bytes api(string) stack context aux
                                      captured. id: unique in the process. aux: pool handle for POOL,
                                      else 0. captured: 1 = while a graph was captured, for it */
  GPUPEAK_REC_DEVICE_FREE = 0x89,   /* dt seq id api(string) stack; logged before the real call */
  GPUPEAK_REC_DEVICE_REVIVE = 0x8a, /* dt seq id: the real free failed, the block lives on */
  GPUPEAK_REC_DEVICE_FAILED = 0x8b, /* dt seq kind device bytes result live free total api(string) stack
                                       by_limit: an allocation that failed; result: the CUresult; live:
                                       the device's tracked bytes then. kind 0, bytes 0: for the
                                       driver's own use. by_limit: 1 = by a limit of the run's */
  GPUPEAK_REC_DEVICE_UNKNOWN = 0x8c, /* dt seq address api(string) stack gives_back: free of a
                                        pointer never seen. gives_back: value + 1, the bytes by
                                        which the devices' sum is less, by the driver's word; 0 =
                                        not known */
  GPUPEAK_REC_POOL = 0x8d,    /* dt seq pool device reserved used event; event: enum gpupeak_pool_event */
  GPUPEAK_REC_CONTEXT = 0x8e, /* dt seq context device event; event: enum gpupeak_context_event */
  GPUPEAK_REC_SAMPLE = 0x8f,  /* dt rss rss_file brk_growth pss own: bytes, of this process. pss: its
                                 share; a page that n processes share counts for 1/n. own: without
                                 files and what gpupeak has for itself, with huge pages, which rss
                                 is without. Both value + 1, 0 = not read */
  GPUPEAK_REC_DRIVER_READING = 0x90, /* dt device used source cause reserved own others overlaps
                                        uncertain api name stack n {pid bytes name}…. used: bytes of
                                        the device in use by all processes, by the driver's own
                                        account, without `reserved`. cause: what moved this since the reading before
                                        (NONE: a reading only). reserved, own (this process),
                                        others: value + 1, 0 = not known. overlaps: brackets opened
                                        inside another since the last reading. uncertain: 1 = a call
                                        that allocates or frees was running; its event may stand on
                                        the other side of this reading. api, name: strings; name:
                                        the function or file behind the cause, 0 = none. Behind n:
                                        the largest others, as NVML lists them; their names, 0 = not
                                        known. If own is known, the cause moved that. Written
                                        under the lock that numbers device events: in order with
                                        them */
  GPUPEAK_REC_MARK = 0xa0,    /* dt source name(string) instance category(string) s:text: an instant */
  GPUPEAK_REC_RANGE_BEGIN = 0xa1, /* dt id source name(string) instance category(string) s:text: a phase
                                     that any thread may end, and that overlaps others freely */
  GPUPEAK_REC_RANGE_END = 0xa2,   /* dt id */
  GPUPEAK_REC_TAG_PUSH = 0xa3,    /* dt name(string) s:text: from here on this thread allocates for
                                     this tag */
  GPUPEAK_REC_TAG_POP = 0xa4,     /* dt */
  GPUPEAK_REC_ARENA = 0xa5,       /* dt arena event name(string) address bytes s:text device; event:
                                     enum gpupeak_arena_event; device: 0 = that of its blocks */
  GPUPEAK_REC_ARENA_ALLOC = 0xa6, /* dt arena address bytes name(string) stack in_use reserved
                                     asked: a sub-allocator handed out bytes of memory that is
                                     counted elsewhere. If the address is in use, its size is
                                     replaced, and its name if this one is not 0. in_use, reserved:
                                     value + 1, what the allocator itself says then; 0 = nothing.
                                     asked: bytes that were asked for, which may be fewer; 0 or not
                                     there = not known */
  GPUPEAK_REC_ARENA_FREE = 0xa7,  /* dt arena address bytes in_use reserved used first last idle
                                     idle_since streams; logged before the memory can be handed out
                                     again. bytes: as the allocator says, 0 = nothing. used: count +
                                     1; it and the fields behind it are as in USED; 0 or not there =
                                     not said */
  GPUPEAK_REC_SAMPLING = 0xa8,    /* dt sample_bytes whole_bytes: from here on, this slot's heap
                                     blocks are a Poisson sample with this mean. Blocks of
                                     whole_bytes and more are all logged (0, or not there: none
                                     are). All frees of blocks from before are logged */
  GPUPEAK_REC_ARENA_FAILED = 0xa9, /* dt arena bytes in_use reserved stack device free total limit: a
                                      request that the sub-allocator refused. free, total: what the
                                      driver says of `device` then. limit: value + 1, what the
                                      sub-allocator may take at most; 0 = it does not say */
  GPUPEAK_REC_DEVICE_MAPPED = 0xaa, /* dt address bytes id: the device block `id`, of kind VMM, can be
                                       used at these addresses too */
  GPUPEAK_REC_DEVICE_UNMAPPED = 0xab, /* dt address bytes; logged before the real call. Ends the
                                         addresses alone: the block ends with DEVICE_FREE */
  GPUPEAK_REC_REMAP_BEGIN = 0xac, /* dt address bytes; logged before a mremap, since another thread
                                     may get the addresses before REMAP is logged. What lies there
                                     is counted on, but has no addresses till the same slot's next
                                     REMAP … */
  GPUPEAK_REC_REMAP_FAILED = 0xad, /* dt address bytes; … or this, after which it lies there
                                      again */
  GPUPEAK_REC_RESIDENT = 0xaf, /* dt rss files shared driver stacks anonymous log own free_in_malloc
                                  heap static_data written places: bytes that were resident when resident
                                  memory was larger than ever before, huge pages with the others.
                                  files: code and other files; shared: any shared memory; driver: mappings of its devices; anonymous: brk, too,
                                  without stacks; log: gpupeak's own log; own: mapped by gpupeak for
                                  itself; free_in_malloc: value + 1, what malloc keeps beyond the
                                  blocks in use, 0 = not known; heap: usable bytes in use, by the
                                  counters; static_data: the part of anonymous that is variables of
                                  modules that begin as zeros (.bss); written: pages of private
                                  mappings of files that were written, which are no files' any more;
                                  places: number + 1 and of each begin bytes absent: there private memory of no file was resident,
                                  all but `absent`. begin: from the end of the place before. 0 or not there = not known */
  GPUPEAK_REC_WINDOW = 0xb0, /* dt event number mode live recorded freed frees below: the heap's
                                recording begins (event 0) or ends (1), in a log of
                                GPUPEAK_HOST_COUNTERS. mode: enum gpupeak_host_mode. live: usable
                                bytes of the heap then; recorded: those that the log has. freed,
                                frees: bytes and number of the blocks that the log does not have and
                                that were freed in windows so far. below: of an attached program: by
                                how many bytes its heap is smaller than when it was attached to */
  GPUPEAK_REC_USED = 0xb1, /* dt arena block count first last idle idle_since streams: work that was
                              given to a device had an address of the block in its arguments,
                              `count` times since the block's last USED, or its beginning. arena 0:
                              `block` is the id of a device block; else an address that the arena
                              gave. first, last: ticks before this record; idle: the longest gap
                              between two, which began idle_since ticks before this record; 0 or not
                              there = from first to last. streams: 2 = several. Logged before the
                              record of the block's end, and at the process's end */
  GPUPEAK_REC_USES_END = 0xb2, /* dt left_out unread: the process's end. All live blocks have had
                                  their last USED. left_out: blocks that never get one; unread:
                                  launches whose parameters could not be read */
  GPUPEAK_REC_KERNEL = 0xb3, /* dt kernel name(string) stack: ROLE records call a kernel by this number,
                                from 1 on. name: as the driver has it, mangled, 0 = not known; stack: of
                                the launch at which it was first seen, 0 = not known */
  GPUPEAK_REC_ROLE = 0xb4, /* dt arena block kernel place count: what a block was used for. arena, block:
                              as in USED. kernel 0: place is an enum gpupeak_role. Else a launch of the
                              kernel had an address of the block in the parameter place / 2 (from 0 on);
                              odd: inside a structure; GPUPEAK_NO_PARAMETER: which one is not known.
                              count: calls so far; of the places in which one launch had the block only
                              one counts. Logged at first sight; again, if there were more, before the
                              block's end and at the process's end */
  GPUPEAK_REC_HOST_FAILED = 0xae /* dt kind bytes errno limit limit_bytes used api(string) stack
                                    own: a request for the host's memory that was refused. limit: the limit
                                    that the request would have passed (enum gpupeak_host_limit);
                                    used: what the process (COMMIT: the machine) had of it; own:
                                    the preload's addresses in it */
};
#define GPUPEAK_NO_PARAMETER 0xffffu
enum gpupeak_role {
  GPUPEAK_ROLE_COPIED_IN = 1,   /* from the host */
  GPUPEAK_ROLE_COPIED_OUT = 2,  /* to the host */
  GPUPEAK_ROLE_COPIED_TO = 3,   /* from other memory of a device, or of an array */
  GPUPEAK_ROLE_COPIED_FROM = 4, /* to such memory */
  GPUPEAK_ROLE_FILLED = 5,
  GPUPEAK_ROLE_TEXTURE = 6,  /* a texture or surface object was made of it */
  GPUPEAK_ROLE_PASSED_ON = 7,     /* made known to other processes; no use */
  GPUPEAK_ROLE_ADDRESS_COPIED = 8 /* its first address was in what was copied from the host to a device:
                                     kernels may use it at any time, so it has no USED record from then on */
};
enum gpupeak_host_limit {
  GPUPEAK_LIMIT_NONE = 0,      /* none that is known */
  GPUPEAK_LIMIT_ADDRESSES = 1, /* RLIMIT_AS */
  GPUPEAK_LIMIT_DATA = 2,      /* RLIMIT_DATA */
  GPUPEAK_LIMIT_COMMIT = 3     /* the machine's CommitLimit, where overcommit is off */
};
enum gpupeak_arena_event {
  GPUPEAK_ARENA_CREATED = 0,
  GPUPEAK_ARENA_DESTROYED = 1, /* all that it had handed out ends with it */
  GPUPEAK_ARENA_RESET = 2     /* all that it had handed out is free, the arena stays */
};
enum gpupeak_pool_event { GPUPEAK_POOL_CREATED = 0, GPUPEAK_POOL_DESTROYED = 1, GPUPEAK_POOL_READ = 2 };
enum gpupeak_context_event {
  GPUPEAK_CONTEXT_CREATED = 0, /* or primary context retained for the first time */
  GPUPEAK_CONTEXT_DESTROYED = 1,
  GPUPEAK_CONTEXT_RESET = 2
};
enum gpupeak_reading_source { GPUPEAK_READING_CUDA = 0, GPUPEAK_READING_NVML = 1 };
enum gpupeak_ledger_cause {
  GPUPEAK_LEDGER_NONE = 0,
  GPUPEAK_LEDGER_CONTEXT = 1,      /* contexts, green ones too */
  GPUPEAK_LEDGER_CODE = 2,         /* modules, libraries, a function's first launch */
  GPUPEAK_LEDGER_LOCAL_MEMORY = 3, /* a function that needs more than any before; the stack limit */
  GPUPEAK_LEDGER_LIMITS = 4,       /* printf and heap limits */
  GPUPEAK_LEDGER_STREAMS = 5,
  GPUPEAK_LEDGER_PEER = 6,         /* peer access, access of pools */
  GPUPEAK_LEDGER_GRAPHS = 7,       /* executable graphs: their nodes, not their memory */
  GPUPEAK_LEDGER_ARRAYS = 8,       /* what arrays take beyond the estimate */
  GPUPEAK_LEDGER_MANAGED = 9,      /* managed memory: freed or prefetched */
  GPUPEAK_LEDGER_INTEROP = 10,     /* imports, graphics */
  GPUPEAK_LEDGER_LIMIT = 11
};
enum gpupeak_phase_source {
  GPUPEAK_PHASE_AUTO = 0, GPUPEAK_PHASE_API = 1, GPUPEAK_PHASE_NVTX = 2, GPUPEAK_PHASE_ORT = 3,
  GPUPEAK_PHASE_RULE = 4, GPUPEAK_PHASE_MARK = 5, GPUPEAK_PHASE_PJRT = 6
};

/* ---- definitions: extended records without dt, in chunks of their own ---------------------------
 * One stream for the process, written under one lock, always before the first event that uses them.
 * Read it whole before the events. Ids are given by order: the first NODE is node 1, and so on.
 *
 * main calls load from 0x401136, and load calls malloc from 0x401150. Two nodes are defined:
 *
 *     c1 05 01 ec c4 80 04    NODE 1, five bytes: distance 1 (itself, so a root), ip 0 + 0x401136
 *     c1 02 01 34             NODE 2, two bytes: distance 1 (its parent is node 1), ip + 0x1a
 */
enum gpupeak_definition {
  GPUPEAK_DEF_NODE = 0xc1,   /* distance ip: parent = own id - distance (distance = own id: a root);
                                ip is the return address (pc of the innermost frame), zigzag delta to the
                                ip of the NODE before. Belongs to the module that is loaded at this point
                                of the stream. A caller's frame is the parent. */
  GPUPEAK_DEF_STRING = 0xc2, /* s */
  GPUPEAK_DEF_MODULE = 0xc3, /* ticks bias s:path s:build_id segments {address bytes file_offset}…:
                                loaded; bias = run-time address - ELF address; segments: PT_LOAD, as
                                run-time address, p_memsz, p_offset */
  GPUPEAK_DEF_UNLOAD = 0xc4, /* ticks module */
  GPUPEAK_DEF_FACT = 0xc5,   /* s:key s:value; keys: arg (one each, in order), exe, host, cwd, label.*,
                                python (version), python.off (why its frames are not recorded),
                                last_use (on, or why uses are not recorded),
                                roles (on: there are ROLE records), launches (not all: some launches
                                were not looked at) */
  GPUPEAK_DEF_DEVICE = 0xc6, /* ordinal total s:uuid(16 bytes) s:name memory; memory: GPUPEAK_MEMORY_* */
  GPUPEAK_DEF_PYTHON_FRAME = 0xc8 /* function(string) file(string) line, 0 = not known. A NODE whose ip is
                                     GPUPEAK_PYTHON_IP + n is the n-th of these, counted from 1: a frame
                                     of the Python interpreter that its caller, native code, runs */
};
/* DEF_DEVICE.memory: how device and host memory are one, as the driver says; 0: it was not asked,
 * or said nothing. */
#define GPUPEAK_MEMORY_KNOWN 1u              /* it was asked; the other bits mean what they say */
#define GPUPEAK_MEMORY_INTEGRATED 2u         /* the device's memory is the host's */
#define GPUPEAK_MEMORY_PAGEABLE 4u           /* kernels may use what malloc and mmap give */
#define GPUPEAK_MEMORY_HOST_PAGE_TABLES 8u   /* … through the host's page tables */
#define GPUPEAK_MEMORY_CONCURRENT_MANAGED 16u /* both sides may use managed memory at the same time */
#define GPUPEAK_PYTHON_IP (UINT64_C(1) << 62) /* no x86-64 address */

#if defined(__cplusplus)
#define GPUPEAK_STATIC_ASSERT(c, m) static_assert(c, m)
#else
#define GPUPEAK_STATIC_ASSERT(c, m) _Static_assert(c, m)
#endif
GPUPEAK_STATIC_ASSERT(sizeof(gpupeak_file_header) <= GPUPEAK_RUN_RECORD_OFFSET, "header fits its half of its page");
GPUPEAK_STATIC_ASSERT(sizeof(gpupeak_counters_page) <= GPUPEAK_COUNTERS_BYTES, "counters fit their pages");
GPUPEAK_STATIC_ASSERT(offsetof(gpupeak_counters_page, window_request) % 64 == 0, "a line of its own");
GPUPEAK_STATIC_ASSERT(offsetof(gpupeak_counters_page, more_kinds) <= GPUPEAK_LOG_PAGE, "older logs have one page");
GPUPEAK_STATIC_ASSERT(sizeof(gpupeak_chunk_header) == 64, "chunk header is 64 bytes");
GPUPEAK_STATIC_ASSERT(sizeof(gpupeak_packed_mark) == 24, "the mark of a packed log is 24 bytes");
GPUPEAK_STATIC_ASSERT(sizeof(gpupeak_log_part) == 264, "what is said of a part is 264 bytes");
GPUPEAK_STATIC_ASSERT(GPUPEAK_KIND_LIMIT - GPUPEAK_FIRST_DEVICE_KIND == GPUPEAK_DEVICE_KINDS, "kinds");

#endif /* GPUPEAK_LOG_FORMAT_H */
