// Raw system calls, never through libc: other preloads may hook libc, it may not be initialised
// yet, and it sets errno. Called from every hook context. Results are -errno on failure. A file
// that needs one more call adds it here, with the kernel's types.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/arch.h"

// Constants of the kernel that the headers of older systems do not have.
#ifndef MADV_WIPEONFORK  // Linux 4.14
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_POPULATE_WRITE  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif
#ifndef ARCH_SHSTK_STATUS  // Linux 6.6, x86-64
#define ARCH_SHSTK_STATUS 0x5005
#endif

struct iovec;
struct timespec;

namespace gpupeak::preload::sys {

inline bool failed(long result) {
  return result < 0 && result >= -4095;
}

/// A value as a system call's register holds it.
template <typename Value>
long as_word(Value value) {
  if constexpr (std::is_pointer_v<Value>)
    return reinterpret_cast<long>(value);
  else
    return static_cast<long>(value);
}

template <typename... Values>
long call(long number, Values... values) {
  constexpr size_t kMost = 6;
  static_assert(sizeof...(values) <= kMost);
  const long words[kMost] = {as_word(values)...};
  return arch::system_call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

// Memory.
inline void* mmap(void* at, size_t bytes, int prot, int flags, long fd, int64_t offset) {
  return reinterpret_cast<void*>(call(SYS_mmap, at, bytes, prot, flags, fd, offset));
}
inline bool mmap_failed(const void* result) {
  return failed(reinterpret_cast<long>(result));
}
inline long munmap(void* at, size_t bytes) {
  return call(SYS_munmap, at, bytes);
}
inline void* mremap(void* at, size_t bytes, size_t new_bytes, int flags) {
  return reinterpret_cast<void*>(call(SYS_mremap, at, bytes, new_bytes, flags));
}
inline long mprotect(void* at, size_t bytes, int prot) {
  return call(SYS_mprotect, at, bytes, prot);
}
inline long madvise(void* at, size_t bytes, int advice) {
  return call(SYS_madvise, at, bytes, advice);
}
inline uintptr_t brk(uintptr_t at) {
  return static_cast<uintptr_t>(call(SYS_brk, at));
}
/// These two copy between another process's memory (the second list) and our own.
inline long process_vm_readv(int pid, const iovec* to, size_t count, const iovec* from,
                             size_t from_count) {
  return call(SYS_process_vm_readv, pid, to, count, from, from_count, 0);
}
inline long process_vm_writev(int pid, const iovec* from, size_t count, const iovec* to,
                              size_t to_count) {
  return call(SYS_process_vm_writev, pid, from, count, to, to_count, 0);
}

// Files.
inline long openat(int folder, const char* path, int flags, int mode = 0) {
  return call(SYS_openat, folder, path, flags, mode);
}
inline long open(const char* path, int flags, int mode) {
  return openat(AT_FDCWD, path, flags, mode);
}
inline long close(long fd) {
  return call(SYS_close, fd);
}
inline long read(long fd, void* to, size_t bytes) {
  return call(SYS_read, fd, to, bytes);
}
inline long write(long fd, const void* from, size_t bytes) {
  return call(SYS_write, fd, from, bytes);
}
inline long pread(long fd, void* to, size_t bytes, int64_t offset) {
  return call(SYS_pread64, fd, to, bytes, offset);
}
inline long pwrite(long fd, const void* from, size_t bytes, int64_t offset) {
  return call(SYS_pwrite64, fd, from, bytes, offset);
}
inline long fchmod(long fd, uint32_t mode) {
  return call(SYS_fchmod, fd, mode);
}
inline long ftruncate(long fd, int64_t bytes) {
  return call(SYS_ftruncate, fd, bytes);
}
inline long fallocate(long fd, int mode, int64_t offset, int64_t bytes) {
  return call(SYS_fallocate, fd, mode, offset, bytes);
}
inline long flock(long fd, int operation) {
  return call(SYS_flock, fd, operation);
}
inline long dup3(long fd, int as, int flags) {
  return call(SYS_dup3, fd, as, flags);
}
inline long fstat(long fd, void* stat) {
  return call(SYS_fstat, fd, stat);
}
inline long stat(const char* path, void* stat) {
  return call(SYS_newfstatat, AT_FDCWD, path, stat, 0);
}
inline long lstat(const char* path, void* stat) {
  return call(SYS_newfstatat, AT_FDCWD, path, stat, AT_SYMLINK_NOFOLLOW);
}
/// An open file, closed at the scope's end; or the error of a call that opens one.
struct Descriptor {
  explicit Descriptor(long opened) : fd(opened) {}
  ~Descriptor() {
    if (!failed(fd)) close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  bool is_open() const { return !failed(fd); }
  long fd;
};
/// Opens a file to read it. The name may be a FIFO's, which then has nothing: we do not wait.
inline long open_to_read(const char* path, int folder = AT_FDCWD) {
  return openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}
inline long fgetxattr(long fd, const char* name, void* to, size_t bytes) {
  return call(SYS_fgetxattr, fd, name, to, bytes);
}
/// Checks with the real user and group ids, not with the effective ones.
inline long access(const char* path, int mode) {
  return call(SYS_faccessat, AT_FDCWD, path, mode);
}
inline long readlink(const char* path, char* to, size_t bytes) {
  return call(SYS_readlinkat, AT_FDCWD, path, to, bytes);
}
/// `flags`: AT_SYMLINK_FOLLOW or 0.
inline long link(const char* path, const char* name, int flags = 0) {
  return call(SYS_linkat, AT_FDCWD, path, AT_FDCWD, name, flags);
}
inline long unlink(const char* path) {
  return call(SYS_unlinkat, AT_FDCWD, path, 0);
}
inline long mkdir(const char* path, long mode) {
  return call(SYS_mkdirat, AT_FDCWD, path, mode);
}
/// Returns the bytes of the path, its 0 included.
inline long getcwd(char* to, size_t bytes) {
  return call(SYS_getcwd, to, bytes);
}

// Processes and threads.
inline uint32_t geteuid() {
  return static_cast<uint32_t>(call(SYS_geteuid));
}
inline int getpid() {
  return static_cast<int>(call(SYS_getpid));
}
inline int getppid() {
  return static_cast<int>(call(SYS_getppid));
}
inline int gettid() {
  return static_cast<int>(call(SYS_gettid));
}
inline long execve(const char* path, const char* const* arguments, const char* const* variables) {
  return call(SYS_execve, path, arguments, variables);
}
inline long wait4(int pid, int* status, int options) {
  return call(SYS_wait4, pid, status, options, 0);
}
/// Ends this thread alone.
inline void exit(int code) {
  call(SYS_exit, code);
}
inline void exit_group(int code) {
  call(SYS_exit_group, code);
}
inline long prctl(int what, void* to) {
  return call(SYS_prctl, what, to);
}
/// `limit`: a rlimit64.
inline long getrlimit(int resource, void* limit) {
  return call(SYS_prlimit64, 0, resource, 0, limit);
}
inline long uname(void* names) {
  return call(SYS_uname, names);
}
inline void sched_yield() {
  call(SYS_sched_yield);
}
inline long sched_getscheduler(int tid) {
  return call(SYS_sched_getscheduler, tid);
}
inline long membarrier(long command) {
  return call(SYS_membarrier, command, 0);
}
/// For a word that only this process has. `time`: how long, or until when; nullptr: for good.
inline long futex(const void* word, int operation, uint32_t value, const timespec* time = nullptr) {
  return call(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, time);
}

// Signals. Sets of them are the kernel's, of 64 bits.
inline long tgkill(int pid, int tid, int signal) {
  return call(SYS_tgkill, pid, tid, signal);
}
inline long tkill(int tid, int signal) {
  return call(SYS_tkill, tid, signal);
}
inline long sigprocmask(int how, const uint64_t* set, uint64_t* before) {
  return call(SYS_rt_sigprocmask, how, set, before, sizeof(uint64_t));
}
/// `action`: the kernel's struct.
inline long sigaction(int signal, const void* action) {
  return call(SYS_rt_sigaction, signal, action, 0, sizeof(uint64_t));
}
/// Writes the current alternate stack to `stack`, a stack_t.
inline long sigaltstack(void* stack) {
  return call(SYS_sigaltstack, 0, stack);
}

// Time and chance.
inline long clock_gettime(int clock, timespec* now) {
  return call(SYS_clock_gettime, clock, now);
}
inline long nanosleep(const timespec* time) {
  return call(SYS_nanosleep, time, 0);
}
inline long getrandom(void* to, size_t bytes) {
  return call(SYS_getrandom, to, bytes, 0);
}
#ifdef SYS_arch_prctl
inline long arch_prctl(int what, uint64_t* to) {
  return call(SYS_arch_prctl, what, to);
}
#endif

}  // namespace gpupeak::preload::sys
