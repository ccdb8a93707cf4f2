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
#include "base/compiler.h"

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

/// A system call, by its number and its signature. Further words are 0.
template <long kNumber, typename Signature>
struct Call;
template <long kNumber, typename Result, typename... Arguments>
struct Call<kNumber, Result(Arguments...)> {
  __attribute__((always_inline)) Result operator()(Arguments... arguments) const {
    return static_cast<Result>(call(kNumber, arguments...));
  }
};

// Memory.
inline void* mmap(void* at, size_t bytes, int prot, int flags, long fd, int64_t offset) {
  return reinterpret_cast<void*>(call(SYS_mmap, at, bytes, prot, flags, fd, offset));
}
inline bool mmap_failed(const void* result) {
  return failed(reinterpret_cast<long>(result));
}
inline constexpr Call<SYS_munmap, long(void* at, size_t bytes)> munmap{};
inline void* mremap(void* at, size_t bytes, size_t new_bytes, int flags) {
  return reinterpret_cast<void*>(call(SYS_mremap, at, bytes, new_bytes, flags));
}
inline constexpr Call<SYS_mprotect, long(void* at, size_t bytes, int prot)> mprotect{};
inline constexpr Call<SYS_madvise, long(void* at, size_t bytes, int advice)> madvise{};
inline constexpr Call<SYS_mincore, long(uint64_t at, size_t bytes, unsigned char* pages)> mincore{};
inline constexpr Call<SYS_brk, uintptr_t(uintptr_t at)> brk{};
/// These two copy between another process's memory (the second list) and our own.
inline constexpr Call<SYS_process_vm_readv, long(int pid, const iovec* to, size_t count,
                                                 const iovec* from, size_t from_count)>
    process_vm_readv{};
inline constexpr Call<SYS_process_vm_writev, long(int pid, const iovec* from, size_t count,
                                                  const iovec* to, size_t to_count)>
    process_vm_writev{};

// Files.
inline long openat(int folder, const char* path, int flags, int mode = 0) {
  return call(SYS_openat, folder, path, flags, mode);
}
inline long open(const char* path, int flags, int mode) {
  return openat(AT_FDCWD, path, flags, mode);
}
inline constexpr Call<SYS_close, long(long fd)> close{};
inline constexpr Call<SYS_read, long(long fd, void* to, size_t bytes)> read{};
inline constexpr Call<SYS_write, long(long fd, const void* from, size_t bytes)> write{};
inline constexpr Call<SYS_pread64, long(long fd, void* to, size_t bytes, int64_t offset)> pread{};
inline constexpr Call<SYS_pwrite64, long(long fd, const void* from, size_t bytes, int64_t offset)>
    pwrite{};
inline constexpr Call<SYS_fchmod, long(long fd, uint32_t mode)> fchmod{};
inline constexpr Call<SYS_ftruncate, long(long fd, int64_t bytes)> ftruncate{};
inline constexpr Call<SYS_fallocate, long(long fd, int mode, int64_t offset, int64_t bytes)>
    fallocate{};
inline constexpr Call<SYS_flock, long(long fd, int operation)> flock{};
inline constexpr Call<SYS_dup3, long(long fd, int as, int flags)> dup3{};
inline constexpr Call<SYS_fstat, long(long fd, void* stat)> fstat{};
inline long stat(const char* path, void* stat) {
  return call(SYS_newfstatat, AT_FDCWD, path, stat, 0);
}
inline long lstat(const char* path, void* stat) {
  return call(SYS_newfstatat, AT_FDCWD, path, stat, AT_SYMLINK_NOFOLLOW);
}
/// An open file, closed at the scope's end; or the error of a call that opens one.
struct Descriptor : NoCopies {
  explicit Descriptor(long opened) : fd(opened) {}
  ~Descriptor() {
    if (!failed(fd)) close(fd);
  }
  bool is_open() const { return !failed(fd); }
  long fd;
};
/// Opens a file to read it. The name may be a FIFO's, which then has nothing: we do not wait.
inline long open_to_read(const char* path, int folder = AT_FDCWD) {
  return openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}
inline constexpr Call<SYS_fgetxattr, long(long fd, const char* name, void* to, size_t bytes)>
    fgetxattr{};
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
inline constexpr Call<SYS_getcwd, long(char* to, size_t bytes)> getcwd{};

// Sockets. `address`: a sockaddr.
inline constexpr Call<SYS_socket, long(int family, int type, int protocol)> socket{};
inline constexpr Call<SYS_connect, long(long fd, const void* address, size_t bytes)> connect{};
inline constexpr Call<SYS_accept4, long(long fd, void* address, unsigned* bytes, int flags)>
    accept4{};
inline constexpr Call<SYS_sendto, long(long fd, const void* from, size_t bytes, int flags)> send{};
inline constexpr Call<SYS_recvfrom, long(long fd, void* to, size_t bytes, int flags)> receive{};
inline constexpr Call<SYS_setsockopt,
                      long(long fd, int level, int name, const void* value, size_t bytes)>
    setsockopt{};
inline constexpr Call<SYS_getsockopt,
                      long(long fd, int level, int name, void* value, unsigned* bytes)>
    getsockopt{};

// Processes and threads.
inline constexpr Call<SYS_geteuid, uint32_t()> geteuid{};
inline constexpr Call<SYS_getpid, int()> getpid{};
inline constexpr Call<SYS_getppid, int()> getppid{};
inline constexpr Call<SYS_gettid, int()> gettid{};
inline constexpr Call<SYS_execve, long(const char* path, const char* const* arguments,
                                       const char* const* variables)>
    execve{};
inline constexpr Call<SYS_wait4, long(int pid, int* status, int options)> wait4{};
/// Ends this thread alone.
inline constexpr Call<SYS_exit, void(int code)> exit{};
inline constexpr Call<SYS_exit_group, void(int code)> exit_group{};
inline constexpr Call<SYS_prctl, long(int what, void* to)> prctl{};
/// `limit`: a rlimit64.
inline long getrlimit(int resource, void* limit) {
  return call(SYS_prlimit64, 0, resource, 0, limit);
}
inline constexpr Call<SYS_uname, long(void* names)> uname{};
inline constexpr Call<SYS_sched_yield, void()> sched_yield{};
inline constexpr Call<SYS_sched_getscheduler, long(int tid)> sched_getscheduler{};
inline constexpr Call<SYS_membarrier, long(long command)> membarrier{};
/// For a word that only this process has. `time`: how long, or until when; nullptr: for good.
inline long futex(const void* word, int operation, uint32_t value, const timespec* time = nullptr) {
  return call(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, time);
}

// Signals. Sets of them are the kernel's, of 64 bits.
inline constexpr Call<SYS_tgkill, long(int pid, int tid, int signal)> tgkill{};
inline constexpr Call<SYS_tkill, long(int tid, int signal)> tkill{};
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
inline constexpr Call<SYS_clock_gettime, long(int clock, timespec* now)> clock_gettime{};
inline constexpr Call<SYS_nanosleep, long(const timespec* time)> nanosleep{};
inline constexpr Call<SYS_getrandom, long(void* to, size_t bytes)> getrandom{};
#ifdef SYS_arch_prctl
inline constexpr Call<SYS_arch_prctl, long(int what, uint64_t* to)> arch_prctl{};
#endif

}  // namespace gpupeak::preload::sys
