// Raw system calls: never through libc, which other preloads may hook, which may not be initialised
// yet, and which sets errno. Called from every hook context. Results are -errno on failure.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

#include "base/arch.h"

namespace gpupeak::preload::sys {

inline long call6(long number, long a, long b, long c, long d, long e, long f) {
  return arch::system_call(number, a, b, c, d, e, f);
}

inline bool failed(long result) {
  return result < 0 && result >= -4095;
}

inline void* mmap(void* at, size_t bytes, int prot, int flags, int fd, int64_t offset) {
  return reinterpret_cast<void*>(call6(SYS_mmap, reinterpret_cast<long>(at),
                                       static_cast<long>(bytes), prot, flags, fd, offset));
}
inline bool mmap_failed(const void* result) {
  return failed(reinterpret_cast<long>(result));
}
inline long munmap(void* at, size_t bytes) {
  return call6(SYS_munmap, reinterpret_cast<long>(at), static_cast<long>(bytes), 0, 0, 0, 0);
}
inline long madvise(void* at, size_t bytes, int advice) {
  return call6(SYS_madvise, reinterpret_cast<long>(at), static_cast<long>(bytes), advice, 0, 0, 0);
}
inline long open(const char* path, int flags, int mode) {
  return call6(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), flags, mode, 0, 0);
}
inline long close(int fd) {
  return call6(SYS_close, fd, 0, 0, 0, 0, 0);
}
inline long read(int fd, void* to, size_t bytes) {
  return call6(SYS_read, fd, reinterpret_cast<long>(to), static_cast<long>(bytes), 0, 0, 0);
}
inline long write(int fd, const void* from, size_t bytes) {
  return call6(SYS_write, fd, reinterpret_cast<long>(from), static_cast<long>(bytes), 0, 0, 0);
}
inline long pread(int fd, void* to, size_t bytes, int64_t offset) {
  return call6(SYS_pread64, fd, reinterpret_cast<long>(to), static_cast<long>(bytes), offset, 0, 0);
}
inline long pwrite(int fd, const void* from, size_t bytes, int64_t offset) {
  return call6(SYS_pwrite64, fd, reinterpret_cast<long>(from), static_cast<long>(bytes), offset, 0,
               0);
}
inline long fchmod(int fd, uint32_t mode) {
  return call6(SYS_fchmod, fd, static_cast<long>(mode), 0, 0, 0, 0);
}
inline long ftruncate(int fd, int64_t bytes) {
  return call6(SYS_ftruncate, fd, bytes, 0, 0, 0, 0);
}
inline long fallocate(int fd, int mode, int64_t offset, int64_t bytes) {
  return call6(SYS_fallocate, fd, mode, offset, bytes, 0, 0);
}
inline long fstat(int fd, void* stat) {
  return call6(SYS_fstat, fd, reinterpret_cast<long>(stat), 0, 0, 0, 0);
}
inline long stat(const char* path, void* stat) {
  return call6(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(path), reinterpret_cast<long>(stat),
               0, 0, 0);
}
inline long lstat(const char* path, void* stat) {
  return call6(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(path), reinterpret_cast<long>(stat),
               AT_SYMLINK_NOFOLLOW, 0, 0);
}
inline long readlink(const char* path, char* to, size_t bytes) {
  return call6(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>(path), reinterpret_cast<long>(to),
               static_cast<long>(bytes), 0, 0);
}
inline long link(const char* path, const char* name) {
  return call6(SYS_linkat, AT_FDCWD, reinterpret_cast<long>(path), AT_FDCWD,
               reinterpret_cast<long>(name), 0, 0);
}
inline long unlink(const char* path) {
  return call6(SYS_unlinkat, AT_FDCWD, reinterpret_cast<long>(path), 0, 0, 0, 0);
}
inline void sched_yield() {
  call6(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}
inline uint32_t geteuid() {
  return static_cast<uint32_t>(call6(SYS_geteuid, 0, 0, 0, 0, 0, 0));
}
inline int getpid() {
  return static_cast<int>(call6(SYS_getpid, 0, 0, 0, 0, 0, 0));
}
inline int getppid() {
  return static_cast<int>(call6(SYS_getppid, 0, 0, 0, 0, 0, 0));
}
inline int gettid() {
  return static_cast<int>(call6(SYS_gettid, 0, 0, 0, 0, 0, 0));
}
inline long tgkill(int pid, int tid, int signal) {
  return call6(SYS_tgkill, pid, tid, signal, 0, 0, 0);
}
inline long membarrier(long command) {
  return call6(SYS_membarrier, command, 0, 0, 0, 0, 0);
}
inline long getrandom(void* to, size_t bytes) {
  return call6(SYS_getrandom, reinterpret_cast<long>(to), static_cast<long>(bytes), 0, 0, 0, 0);
}
inline uintptr_t brk(uintptr_t at) {
  return static_cast<uintptr_t>(call6(SYS_brk, static_cast<long>(at), 0, 0, 0, 0, 0));
}

}  // namespace gpupeak::preload::sys
