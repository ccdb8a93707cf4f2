// Says what each mapping of a process is for, from the kernel's list (/proc/PID/smaps). The library
// reads the list of its own process, `run` those of the programs that it watches. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpupeak {

struct Mapping {
  uint64_t begin = 0, end = 0;
  bool is_readable = false, is_writable = false;
  std::string_view name;  ///< the last field of the line; empty: anonymous
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
  ++at;
  for (int field = 0; field < 4; ++field) {  // permissions, offset, device, inode
    while (*at != 0 && *at != ' ') ++at;
    while (*at == ' ') ++at;
  }
  mapping.name = at;
  return true;
}

/// An arena of malloc begins at a multiple of this, and is at most this large. Full arenas that lie
/// side by side are one mapping.
constexpr uint64_t kArena = 64 << 20;

/// The mapping before a thread's stack is its guard. Where a mapping begins at a multiple of
/// kArena, it may be an arena of malloc behind the unused rest of another arena.
inline bool is_stack(const Mapping& mapping, const Mapping& before) {
  constexpr uint64_t kMostGuard = 64 << 10;
  return mapping.name.empty() && mapping.is_writable && mapping.begin % kArena != 0 &&
         before.end == mapping.begin && !before.is_readable && before.name.empty() &&
         before.end - before.begin <= kMostGuard;
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
template <typename Read>
bool is_arena(const Mapping& mapping, Read read) {
  if (mapping.begin % kArena != 0) return false;
  uint64_t word = 0;
  if (!read(mapping.begin, word)) return mapping.end - mapping.begin <= kArena;
  return is_arena_state(word);
}

template <typename Read>
ResidentKind kind_of(const Mapping& mapping, const Mapping& before, Read read) {
  const std::string_view name = mapping.name;
  if (name == "[heap]") return ResidentKind::kMalloc;
  if (starts_with(name, "[stack") || is_stack(mapping, before)) return ResidentKind::kStacks;
  if (starts_with(name, "[anon_shmem")) return ResidentKind::kShared;
  if (name.empty() || starts_with(name, "[anon"))
    return is_arena(mapping, read) ? ResidentKind::kMalloc : ResidentKind::kAnonymous;
  if (starts_with(name, "/dev/nvidia")) return ResidentKind::kDriver;
  const bool is_shared = starts_with(name, "/dev/shm/") || starts_with(name, "/SYSV") ||
                         starts_with(name, "/memfd:") || starts_with(name, "/dev/zero");
  return is_shared ? ResidentKind::kShared : ResidentKind::kFiles;
}

}  // namespace smaps
}  // namespace gpupeak
