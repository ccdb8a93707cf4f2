// Says what each mapping of a process is for, from the kernel's list (/proc/PID/smaps). The library
// reads the list of its own process, `run` those of the programs that it watches. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpupeak {

struct Mapping {
  uint64_t begin = 0, end = 0;
  bool is_readable = false, is_writable = false, is_shared = false;
  /// The kernel's own file system of shared memory has its pages: memfd, System V, /dev/zero.
  bool is_kernels_shmem = false;
  std::string_view name;  ///< the last field of the line; empty: anonymous
};

/// The bytes of a mapping that are resident, by what its pages are.
struct MappingPages {
  uint64_t rss = 0;
  uint64_t anonymous = 0;         ///< of rss: in a private mapping of a file, what was written
  uint64_t others = 0;            ///< of rss: pages that other processes have, too
  uint64_t huge = 0;              ///< of hugetlbfs, which are not in rss
  bool is_growing_stack = false;  ///< MAP_GROWSDOWN
  uint64_t bytes() const { return rss + huge; }
};

/// What is resident of a process, by what its pages are. They add up to all of it.
struct ResidentParts {
  uint64_t files_bytes = 0;    ///< pages of files: the kernel may take them back
  uint64_t written_bytes = 0;  ///< pages of private mappings of files that were written
  uint64_t shared_bytes = 0, driver_bytes = 0, stacks_bytes = 0;
  uint64_t malloc_bytes = 0;     ///< where malloc puts its blocks: brk and arenas
  uint64_t anonymous_bytes = 0;  ///< other anonymous memory
};

enum class ResidentKind : uint8_t { kFiles, kShared, kDriver, kStacks, kMalloc, kAnonymous };

namespace smaps {

/// The member of string_view would bring in libstdc++'s exceptions.
constexpr bool starts_with(std::string_view text, std::string_view with) {
  if (text.size() < with.size()) return false;
  for (size_t i = 0; i < with.size(); ++i)
    if (text[i] != with[i]) return false;
  return true;
}

inline uint64_t hex_at(const char*& at) {
  uint64_t value = 0;
  for (;; ++at) {
    const char c = *at;
    if (c >= '0' && c <= '9')
      value = value * 16 + static_cast<uint64_t>(c - '0');
    else if (c >= 'a' && c <= 'f')
      value = value * 16 + static_cast<uint64_t>(c - 'a' + 10);
    else
      return value;
  }
}

/// Reads a line as "7f00-7f01 rw-p 00000000 00:00 0    name"; false for any other line.
inline bool parse_mapping(const char* line, Mapping& mapping) {
  const char* at = line;
  mapping.begin = hex_at(at);
  if (at == line || *at != '-') return false;
  mapping.end = hex_at(++at);
  if (*at != ' ') return false;
  mapping.is_readable = at[1] == 'r';
  mapping.is_writable = at[2] == 'w';
  mapping.is_shared = at[2] != 0 && at[3] != 0 && at[4] == 's';
  ++at;
  for (int field = 0; field < 4; ++field) {  // permissions, offset, device, inode
    if (field == 2) mapping.is_kernels_shmem = starts_with(at, "00:01 ");
    while (*at != 0 && *at != ' ') ++at;
    while (*at == ' ') ++at;
  }
  mapping.name = at;
  return true;
}

/// "Rss:     1234 kB"
inline uint64_t bytes_at(const char* text) {
  while (*text != 0 && (*text < '0' || *text > '9')) ++text;
  uint64_t kib = 0;
  for (; *text >= '0' && *text <= '9'; ++text) kib = kib * 10 + static_cast<uint64_t>(*text - '0');
  return kib << 10;
}

/// Takes what a line behind the mapping's own says of its pages.
inline void add_line(const char* line, MappingPages& pages) {
  const std::string_view text = line;
  if (starts_with(text, "Rss:")) pages.rss = bytes_at(line);
  if (starts_with(text, "Anonymous:")) pages.anonymous = bytes_at(line);
  if (starts_with(text, "Shared_Clean:") || starts_with(text, "Shared_Dirty:"))
    pages.others += bytes_at(line);
  if (starts_with(text, "Private_Hugetlb:") || starts_with(text, "Shared_Hugetlb:"))
    pages.huge += bytes_at(line);
  if (starts_with(text, "VmFlags:")) {
    for (; *line != 0; ++line)
      if (starts_with(line, " gd")) pages.is_growing_stack = true;
  }
}

/// An arena of malloc begins at a multiple of this, and is at most this large. Full arenas that lie
/// side by side are one mapping.
constexpr uint64_t kArena = 64 << 20;

/// The mapping before a thread's stack is its guard. An arena of malloc may lie so behind the
/// unused rest of another arena.
inline bool has_guard(const Mapping& mapping, const Mapping& before) {
  constexpr uint64_t kMostGuard = 64 << 10;
  return mapping.name.empty() && mapping.is_writable && before.end == mapping.begin &&
         !before.is_readable && before.name.empty() && before.end - before.begin <= kMostGuard;
}

/// Whether this can be the first word of an arena: malloc has the address of the arena's state
/// there, which lies near the beginning of an arena.
constexpr bool is_arena_state(uint64_t word) {
  constexpr uint64_t kNear = 4096;
  return word >= kArena && word % kArena > 0 && word % kArena < kNear;
}

/// Whether a mapping is an arena of malloc. Other mappings may begin at a multiple of kArena by
/// chance: newer kernels align those of 2 MiB and more to 2 MiB, so one in 32 does. The first word
/// decides. If `read(address, word)` is false, the size decides: one arena is at most kArena.
/// The first page of an arena is never closed.
template <typename Read>
bool is_arena(const Mapping& mapping, Read read) {
  if (mapping.begin % kArena != 0 || !mapping.is_readable) return false;
  uint64_t word = 0;
  if (!read(mapping.begin, word)) return mapping.end - mapping.begin <= kArena;
  return is_arena_state(word);
}

template <typename Read>
ResidentKind kind_of(const Mapping& mapping, const Mapping& before, Read read) {
  const std::string_view name = mapping.name;
  if (name == "[heap]") return ResidentKind::kMalloc;
  if (starts_with(name, "[stack") || (has_guard(mapping, before) && !is_arena(mapping, read)))
    return ResidentKind::kStacks;
  if (starts_with(name, "[anon_shmem")) return ResidentKind::kShared;
  if (name.empty() || starts_with(name, "[anon"))
    return is_arena(mapping, read) ? ResidentKind::kMalloc : ResidentKind::kAnonymous;
  if (starts_with(name, "/dev/nvidia")) return ResidentKind::kDriver;
  if (mapping.is_kernels_shmem || starts_with(name, "/dev/shm/")) return ResidentKind::kShared;
  // A private mapping of /dev/zero is anonymous memory, and so is one of large pages.
  if (!mapping.is_shared && (starts_with(name, "/dev/zero") || starts_with(name, "/anon_hugepage")))
    return ResidentKind::kAnonymous;
  return starts_with(name, "/SYSV") ? ResidentKind::kShared : ResidentKind::kFiles;
}

/// Adds a mapping's pages. A written page of a private mapping is nobody's file any more.
inline void add_pages(const Mapping& mapping, ResidentKind kind, const MappingPages& pages,
                      ResidentParts& parts) {
  const auto take = [&](uint64_t& own) {
    own += pages.anonymous;
    return pages.rss - (pages.anonymous < pages.rss ? pages.anonymous : pages.rss);
  };
  if (kind == ResidentKind::kFiles) {
    parts.files_bytes += take(mapping.is_shared ? parts.files_bytes : parts.written_bytes);
    (mapping.is_shared ? parts.shared_bytes : parts.anonymous_bytes) += pages.huge;
  } else if (kind == ResidentKind::kShared) {
    parts.shared_bytes += take(parts.anonymous_bytes) + pages.huge;
  } else {
    (kind == ResidentKind::kDriver   ? parts.driver_bytes
     : kind == ResidentKind::kStacks ? parts.stacks_bytes
     : kind == ResidentKind::kMalloc ? parts.malloc_bytes
                                     : parts.anonymous_bytes) += pages.bytes();
  }
}

/// `shared_bytes`: all shared memory, by the kernel's sum. Files of a tmpfs have names like any
/// others. `log_bytes`: of gpupeak's log, which counts apart and may lie there, too.
inline void find_other_shared(uint64_t shared_bytes, uint64_t log_bytes, ResidentParts& parts) {
  uint64_t more = shared_bytes > parts.shared_bytes ? shared_bytes - parts.shared_bytes : 0;
  if (log_bytes > 0 && more >= log_bytes) more -= log_bytes;
  if (more > parts.files_bytes) more = parts.files_bytes;
  parts.files_bytes -= more;
  parts.shared_bytes += more;
}

}  // namespace smaps
}  // namespace gpupeak
